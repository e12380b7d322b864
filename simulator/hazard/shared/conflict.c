/* Decides whether two conflicting accesses of shared memory are ordered, and names the finding if not. */
#include "conflict.h"

#include <stdio.h>

static inline uint32_t lane_of(uint32_t lanes, int word) {
    return lanes >> (8 * word) & 0xff;
}

struct verdict {
    const char *kind, *message;
};

/* The kind of finding for an access with `flags` after an unordered one with flags `before`. */
static struct verdict unordered(uint8_t before, unsigned flags) {
    bool was_write = before & ACCESS_WRITE, was_async = before & (ACCESS_ASYNC | ACCESS_COPY);
    bool write = flags & ACCESS_WRITE, async = flags & ACCESS_ASYNC;
    if (was_async && was_write && !write) {
        return (struct verdict){
            "read-before-completion",
            "reads shared memory that an asynchronous operation writes, without having waited "
            "for its completion"};
    }
    if (was_async && !was_write) {
        return (struct verdict){
            "overwrite-while-read",
            "writes shared memory that an asynchronous operation may still read: this thread has not waited "
            "for its completion, nor learnt of it from one that has"};
    }
    if (was_async && write) {
        return (struct verdict){"double-write",
                                "writes shared memory that an asynchronous operation still writes"};
    }
    if (async && write && !was_write) {
        return (struct verdict){
            "overwrite-while-read",
            "an asynchronous write to shared memory whose last readers have not signalled that "
            "they are done"};
    }
    if (async && !write) {
        return (struct verdict){"async-read-race",
                                "an asynchronous read of shared memory that another thread wrote without a "
                                "synchronisation in between"};
    }
    return (struct verdict){
        was_write && write ? "write-race"
        : write            ? "write-after-read-race"
                           : "read-after-write-race",
        "two warps use the same shared memory, one of them writing, without a synchronisation "
        "in between"};
}

static void report_conflict(struct run *run, enum sim_verdict severity, const struct shadow_record *record,
                            const struct touch *touch, const struct verdict *verdict) {
    const int byte = __builtin_ctz(record->bytes & touch->bytes);
    const uint32_t lane = lane_of(touch->lanes, byte / (GRANULE / WORDS));
    const struct insn *other = &run->launch->module->code[record->pc];
    bool unknown = severity == SIM_ERROR && flags_lost(run->cluster);
    char message[300];
    (void)snprintf(message, sizeof message, "%s%s", verdict->message,
                   unknown ? "; not judged: the kernel uses more flags in memory than the checks can follow, "
                             "and one of those may order the two"
                           : "");
    sim_note_at(run->launch, unknown ? SIM_INCOMPLETE : severity, verdict->kind, run->cta,
                (int)run->warp->index, lane == SEVERAL_LANES ? -1 : (int)lane, touch->offset + byte, run->insn,
                other, message);
}

static bool awaited(const struct run *run, uint32_t value) {
    return value <= run->warp->awaited_time && (run->mask & ~run->warp->awaited_by) == 0;
}

/* True if the running lanes come after what all lanes of their warp did at this time of the warp. */
static bool lanes_met(const struct run *run, uint32_t value) {
    return value <= run->warp->synced_time || awaited(run, value);
}

/* True if two lanes of the running warp use the same bytes and the warp has not synchronised in between. */
static bool lanes_race(const struct run *run, const struct shadow_record *record, const struct touch *touch,
                       unsigned flags) {
    if (!is_own_index(run->warp, record->clock_index) || awaited(run, record->value) ||
        (both_bare(record->flags, flags) && record->value <= run->warp->fenced_time)) {
        return false;
    }
    for (int word = 0; word < WORDS; word++) {
        uint32_t both = record->bytes & touch->bytes & 0xfu << (4 * word);
        uint32_t before = lane_of(record->lanes, word), now = lane_of(touch->lanes, word);
        if (both != 0 && before != SEVERAL_LANES && now != SEVERAL_LANES && before != now &&
            !lanes_synced(run->warp, record->value, before, now)) {
            return true;
        }
    }
    return false;
}

/* True if a lane uses what another lane of its warp has copied by cp.async and waited for, without a
 * synchronisation since that wait, which is for the waiting lane's own copies. */
static bool copy_races(const struct run *run, const struct shadow_record *record, const struct touch *touch) {
    const struct warp *warp = run->warp;
    if (!(record->flags & ACCESS_COPY) || record->clock_index != warp->copies_index ||
        warp->clock->acquired[record->clock_index] - record->value >= COPIES_SEEN) {
        return false;
    }
    const uint32_t seen = warp->copies_seen[record->value % COPIES_SEEN];
    for (int word = 0; word < WORDS; word++) {
        uint32_t both = record->bytes & touch->bytes & 0xfu << (4 * word);
        uint32_t before = lane_of(record->lanes, word), now = lane_of(touch->lanes, word);
        if (both != 0 && now != SEVERAL_LANES && before != now && !lanes_synced(warp, seen, before, now)) {
            return true;
        }
    }
    return false;
}

/* True if some lanes start an asynchronous operation on memory that the whole warp has just used. */
static bool lane_takes_all(const struct run *run, const struct shadow_record *record) {
    return record->clock_index == run->warp->number && !lanes_met(run, record->value) &&
           run->mask != run->warp->live;
}

/* True if the running store writes the values that those bytes of the granule already have. */
static bool same_values(const struct run *run, const struct touch *touch, uint32_t bytes) {
    uint8_t new[GRANULE];
    const uint8_t *old = touch->cta->shared + touch->offset;
    memcpy(new, old, GRANULE);
    run->values->fill(run, run->values, touch->cta, touch->offset, new);
    for (uint32_t rest = bytes; rest != 0; rest &= rest - 1) {
        if (new[__builtin_ctz(rest)] != old[__builtin_ctz(rest)]) {
            return false;
        }
    }
    return true;
}

/* Two warps store equal values: a data race by the letter of PTX, with the same result on every chip. */
static bool equal_stores(const struct run *run, const struct shadow_record *record, const struct touch *touch,
                         unsigned flags) {
    return run->values != NULL && flags == ACCESS_WRITE && record->flags == ACCESS_WRITE &&
           same_values(run, touch, record->bytes & touch->bytes);
}

bool varies(const struct run *run, const struct shadow_record *record, const struct touch *touch,
            unsigned flags, const struct epoch *epoch) {
    return run->values != NULL && (flags & ACCESS_WRITE) && (record->flags & ACCESS_WRITE) &&
           record->clock_index == epoch->clock_index && record->value == epoch->value &&
           (record->flags & ACCESS_VARIED || !same_values(run, touch, record->bytes & touch->bytes));
}

/* True for an access of the async proxy, which sees ordinary stores only after a fence. */
static bool by_async_proxy(unsigned flags) {
    return (flags & (ACCESS_ASYNC | ACCESS_GENERIC)) == ACCESS_ASYNC;
}

/* One of the two is an atomic, a volatile or a relaxed access, and no signal tells a reader of an ordinary
 * store: chips give the old value or the new one, as in global memory. */
static bool one_strong(const struct shadow_record *record, unsigned flags, const struct epoch *epoch) {
    const bool told = !(flags & ACCESS_WRITE) && !(record->flags & ACCESS_ATOMIC) &&
                      epoch->clock->causal[record->clock_index] >= record->value;
    return ((record->flags ^ flags) & ACCESS_ATOMIC) != 0 &&
           ((record->flags | flags) & (ACCESS_ASYNC | ACCESS_COPY)) == 0 && !told;
}

bool check_conflict(struct run *run, const struct shadow_record *record, const struct touch *touch,
                    unsigned flags, const struct epoch *epoch) {
    static const struct verdict fence = {"missing-proxy-fence",
                                         "an asynchronous operation uses shared memory written by ordinary "
                                         "stores, with no fence.proxy.async in between"};
    static const struct verdict elected = {
        "elected-signal", "one lane signals for its warp, with no __syncwarp between the other lanes' accesses "
                          "and the signal that orders this access after them"};
    static const struct verdict after_loads = {
        "missing-proxy-fence",
        "an asynchronous write to shared memory that ordinary loads of this very warp have read, with neither "
        "fence.proxy.async nor a barrier of the CTA in between"};
    static const struct verdict lanes = {
        "lane-race", "two lanes of a warp use the same shared memory, one of them writing, without __syncwarp"};
    static const struct verdict copied = {
        "lane-race",
        "a lane uses what another lane of its warp has copied, with no __syncwarp after the wait for "
        "the copy, which covers the waiting lane's own copies only"};
    static const struct verdict equal = {
        "write-race", "two warps write the same values to the same shared memory without a synchronisation in "
                      "between"};
    bool async = flags & ACCESS_ASYNC,
         warp_time = record->clock_index < run->cluster->nctas * run->launch->warps;
    if (epoch->clock->acquired[record->clock_index] < record->value) {
        struct verdict verdict = unordered(record->flags, flags);
        bool same = equal_stores(run, record, touch, flags);
        const bool review = same || one_strong(record, flags, epoch) || both_bare(record->flags, flags);
        report_conflict(run, review ? SIM_REVIEW : SIM_ERROR, record, touch, same ? &equal : &verdict);
        return true;
    } else if (by_async_proxy(flags) && (record->flags & ACCESS_WRITE) && !by_async_proxy(record->flags) &&
               epoch->clock->async[record->clock_index] < record->value) {
        report_conflict(run, SIM_ERROR, record, touch, &fence);
        return true;
    } else if (warp_time && !is_own_index(run->warp, record->clock_index) &&
               epoch->clock->per_lane[record->clock_index] < record->value) {
        report_conflict(run, SIM_REVIEW, record, touch, &elected);
        return true;
    } else if (async && (flags & ACCESS_WRITE) && (record->flags & ~(unsigned)ACCESS_MIXED) == ACCESS_READ &&
               is_own_index(run->warp, record->clock_index) &&
               epoch->clock->async[record->clock_index] < record->value &&
               run->warp->clock->met[run->warp->number] < record->value) {
        report_conflict(run, SIM_REVIEW, record, touch, &after_loads);
        return true;
    } else if (async ? lane_takes_all(run, record) : lanes_race(run, record, touch, flags)) {
        report_conflict(run, SIM_REVIEW, record, touch, &lanes);
        return true;
    } else if (!async && copy_races(run, record, touch)) {
        report_conflict(run, SIM_REVIEW, record, touch, &copied);
        return true;
    }
    return false;
}
