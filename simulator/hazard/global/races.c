/* Races on global memory inside one launch (races.h). */
#include "races.h"
#include "hazard/releases.h"
#include "ptx/dependence.h"

#include <stdio.h>
#include <stdlib.h>

#define LISTED        16 /* further readers and atomics go to a hash table, where a warp finds its own use */
#define MANY          UINT32_MAX
#define FIRST_READERS 32 /* initial size of that table; a power of two */

enum order {
    ORDERED,
    NO_ORDER,
    NO_ACQUIRE, /* all but a fence after a relaxed signal */
    NO_FENCE    /* between the proxies */
};

/* True if the access comes after what was done then. */
static bool comes_after(const struct line_access *access, const struct line_time *time) {
    const struct run *run = access->run;
    const struct vector_clock *clock = access->epoch->clock;
    return time->cluster == run->cluster->number
               ? clock->acquired[time->clock_index] >= time->value
               : heard_of(run, clock->acquired[run->cluster->heard_index], time->cluster, time->clock_index,
                          time->value, false);
}

/* True if the access comes later in time, as signals show that order no memory. */
static bool comes_later(const struct line_access *access, const struct line_time *time) {
    return time->cluster == access->run->cluster->number
               ? access->epoch->clock->causal[time->clock_index] >= time->value
               : noticed_of(access->run, time->cluster, time->clock_index, time->value);
}

/* True if every chip gets the access right after what was done then, although no fence follows the relaxed
 * signal that told of it (hazard/README.md, between clusters). */
static bool noticed(const struct line_access *access, const struct line_time *time) {
    return time->cluster != access->run->cluster->number &&
           noticed_behind_fence(access->run, time->cluster, time->clock_index, time->value,
                                !(access->flags & ACCESS_ATOMIC));
}

static enum order order_of(const struct line_access *access, const struct line_use *use) {
    const struct run *run = access->run;
    const unsigned flags = access->flags;
    const struct line_time *time = &use->time;
    const struct vector_clock *clock = access->epoch->clock;
    const uint32_t heard = run->cluster->heard_index;
    if (!comes_after(access, time)) {
        return !((flags | use->flags) & ACCESS_ASYNC) && noticed(access, time) ? NO_ACQUIRE : NO_ORDER;
    }
    if (!(flags & ACCESS_ASYNC) || !(use->flags & ACCESS_WRITE) || (use->flags & ACCESS_ASYNC)) {
        return ORDERED;
    }
    if (time->cluster == run->cluster->number) {
        return clock->async[time->clock_index] < time->value ? NO_FENCE : ORDERED;
    }
    /* A fence on either side of the flag will do (PTX ISA, proxy-preserved base causality order). */
    bool fenced = heard_of(run, clock->async[heard], time->cluster, time->clock_index, time->value, false) ||
                  heard_of(run, clock->acquired[heard], time->cluster, time->clock_index, time->value, true);
    return fenced ? ORDERED : NO_FENCE;
}

/* True if the running store and those recorded write the same values to the bytes of the mask. */
static bool stores_equal(const struct line_access *access, const struct line_use *use,
                         const uint64_t both[RECORD_WORDS]) {
    const struct run *run = access->run;
    return run->leaves_memory != NULL &&
           run->leaves_memory(run, access->allocation->base + access->start, both) &&
           (use->other.value == 0 || comes_after(access, &use->other));
}

/* True for strong accesses of two CTAs of which one has scope .cta: they are not atomic to each other (PTX ISA,
 * morally strong operations). */
static bool too_narrow(const struct line_access *access, const struct line_use *use) {
    const struct run *run = access->run;
    return ((access->flags | use->flags) & ACCESS_OF_CTA) &&
           (use->time.cluster != (uint32_t)run->cluster->number ||
            use->warp / run->launch->warps != run->cta->rank);
}

struct judgement {
    enum sim_verdict verdict;
    const char *kind, *why;
};

/* The verdict on two accesses without an order.  An error is what some chip can get wrong. */
static struct judgement judge(const struct line_access *access, const struct line_use *use, enum order order,
                              const uint64_t both[RECORD_WORDS]) {
    static const char race[] = "global-race";
    const struct run *run = access->run;
    const bool write = access->flags & ACCESS_WRITE, wrote = use->flags & ACCESS_WRITE;
    const bool one_strong = (access->flags ^ use->flags) & ACCESS_ATOMIC;
    if (order == NO_ACQUIRE) {
        return access->stale
                   ? (struct judgement){SIM_ERROR, race,
                                        "no fence follows the flag that orders the two, and an SM "
                                        "that loaded the line before may read it from its L1"}
                   : (struct judgement){SIM_REVIEW, race,
                                        "a release or a fence precedes the flag that orders the two and none "
                                        "follows it, but this access waits for the signal's value"};
    }
    if (order == NO_FENCE) {
        return (struct judgement){SIM_ERROR, "missing-proxy-fence",
                                  "ordinary stores and a bulk copy, with no fence.proxy.async in between"};
    }
    if (both_bare(access->flags, use->flags) && !too_narrow(access, use)) {
        return (struct judgement){
            SIM_REVIEW, race,
            "nothing orders the two: volatile accesses are relaxed, and neither a fence nor "
            "a barrier makes a signal of the store"};
    }
    if (access->flags & use->flags & ACCESS_ATOMIC) {
        const bool both_narrow = access->flags & use->flags & ACCESS_OF_CTA;
        return (struct judgement){
            both_narrow ? SIM_ERROR : SIM_REVIEW, "narrow-scope",
            both_narrow ? "both are of scope .cta, so neither is atomic to the other"
                        : "one of the two is of scope .cta, so they are not atomic to each other"};
    }
    if (write && wrote && !one_strong && stores_equal(access, use, both)) {
        return (struct judgement){SIM_REVIEW, race, "nothing orders the two, and both write the same values"};
    }
    if (one_strong && !write && !(use->flags & ACCESS_ATOMIC) && comes_later(access, &use->time)) {
        return (struct judgement){
            SIM_ERROR, race,
            "a relaxed signal tells the reader, but no fence orders the ordinary store before it"};
    }
    if (one_strong && write && (use->flags & ACCESS_ATOMIC) && comes_later(access, &use->time)) {
        return (struct judgement){SIM_CLEAN, race, ""}; /* as the last CTA that resets the counter of all */
    }
    if (one_strong) {
        return (struct judgement){
            SIM_REVIEW, race,
            "nothing orders the two, of which one is strong (an atomic, a volatile or a .relaxed access)"};
    }
    if (write && use->flags == ACCESS_READ && comes_later(access, &use->time) &&
        depends_on_load(run->launch->module, &run->launch->module->code[use->pc], NULL)) {
        return (struct judgement){SIM_REVIEW, race,
                                  "only a relaxed signal orders the two, whose value depends on what was read"};
    }
    return (struct judgement){SIM_ERROR, race,
                              "nothing orders the two: no barrier, and no release and acquire of a flag"};
}

static bool is_own(const struct run *run, const struct line_use *use) {
    return use->time.cluster == (uint32_t)run->cluster->number && use->warp == run->warp->number;
}

static enum sim_verdict report(const struct line_access *access, const struct line_use *use, enum order order) {
    struct run *run = access->run;
    const unsigned flags = access->flags;
    const uint64_t both[RECORD_WORDS] = {use->mask[0] & access->mask[0], use->mask[1] & access->mask[1]};
    const int byte = both[0] != 0 ? __builtin_ctzll(both[0]) : 64 + __builtin_ctzll(both[1]);
    const struct insn *other = &run->launch->module->code[use->pc];
    const struct judgement judgement = judge(access, use, order, both);
    if (judgement.verdict == SIM_CLEAN) {
        return SIM_CLEAN;
    }
    const bool lost = releases_lost(run->launch) || flags_lost(run->cluster);
    char message[300];
    (void)snprintf(message, sizeof message, "%s global memory that %s %s: %s%s",
                   flags & ACCESS_WRITE ? use->flags & ACCESS_WRITE ? "overwrites" : "writes" : "reads",
                   is_own(run, use)
                       ? use->flags & ACCESS_ASYNC ? "a bulk store of this warp" : "a store of this warp"
                   : use->time.cluster == run->cluster->number ? "another warp of the cluster"
                                                               : "another cluster of the grid",
                   use->flags & ACCESS_WRITE ? "writes" : "reads", judgement.why,
                   lost ? "; not judged: the launch uses more flags than the checks can follow" : "");
    const enum sim_verdict verdict = lost ? SIM_INCOMPLETE : judgement.verdict;
    sim_note_global(run->launch, verdict, judgement.kind, run->cta, (int)run->warp->index, access->lane,
                    access->allocation, access->start + (uint64_t)byte, run->insn, other, message);
    return verdict;
}

static bool overlap(const uint64_t a[RECORD_WORDS], const uint64_t b[RECORD_WORDS]) {
    return ((a[0] & b[0]) | (a[1] & b[1])) != 0;
}

static bool within(const uint64_t a[RECORD_WORDS], const uint64_t b[RECORD_WORDS]) {
    return ((a[0] & ~b[0]) | (a[1] & ~b[1])) == 0;
}

/* ---- what is remembered ---- */

/* A hash table of readers and atomics by cluster, clock index and flags; more than half of it is free (a mask
 * of zeros). */
struct readers {
    struct line_use *use;
    uint32_t count, room;
    bool weak, strong_writes, narrow; /* what the uses in it have been; narrow: or bare */
};

enum { WEAK_READS, STRONG_READS, STRONG_WRITES, FORGOTTEN };

struct more_uses {
    struct line_use *use; /* the list from its second element on */
    uint32_t room;
    struct readers readers;
    /* Bytes of uses that there was no room to remember. */
    uint64_t forgotten[FORGOTTEN][RECORD_WORDS];
};

void uses_free(struct line_uses *uses) {
    if (uses->more != NULL) {
        free(uses->more->use);
        free(uses->more->readers.use);
        free(uses->more);
        uses->more = NULL;
    }
}

static bool make_more(struct line_uses *uses) {
    if (uses->more == NULL) {
        uses->more = calloc(1, sizeof *uses->more);
    }
    return uses->more != NULL;
}

static inline struct line_use *use_at(struct line_uses *uses, uint32_t at) {
    return at == 0 ? &uses->first : &uses->more->use[at - 1];
}

/* Makes room for one more element of the list. */
static bool make_room(struct line_uses *uses) {
    if (uses->count == 0) {
        return true;
    }
    if (!make_more(uses)) {
        return false;
    }
    struct more_uses *more = uses->more;
    return LIST_GROW(more->use, uses->count - 1, more->room);
}

/* ---- the table of readers ---- */

static bool is_free(const struct line_use *use) {
    return (use->mask[0] | use->mask[1]) == 0;
}

static uint32_t home_of(const struct readers *readers, const struct line_use *use) {
    uint64_t state = (uint64_t)use->time.cluster << 32 ^ (uint64_t)use->time.clock_index << 8 ^ use->flags;
    return (uint32_t)next_random(&state) & (readers->room - 1);
}

/* True if an order after the later use implies an order after the earlier one, so that one record can hold
 * both. */
static bool replaces(const struct line_use *later, const struct line_use *use) {
    return use->time.cluster == later->time.cluster && use->time.clock_index == later->time.clock_index &&
           use->flags == later->flags &&
           (use->time.value == later->time.value || within(use->mask, later->mask));
}

static void put_use(struct line_use *use, const struct line_use *later) {
    const uint64_t low = use->mask[0], high = use->mask[1];
    const struct line_time other = later->other.value != 0 ? later->other : use->other;
    const bool same_lanes = memcmp(&use->lanes, &later->lanes, sizeof use->lanes) == 0;
    *use = *later;
    use->lanes.bytes = same_lanes ? use->lanes.bytes : 0;
    use->other = other;
    use->mask[0] |= low;
    use->mask[1] |= high;
}

/* False, with nothing done, if the table has to grow first. */
static bool put_reader(struct readers *readers, const struct line_use *use) {
    if (readers->room == 0) {
        return false;
    }
    uint32_t at = home_of(readers, use);
    while (!is_free(&readers->use[at]) && !replaces(use, &readers->use[at])) {
        at = (at + 1) & (readers->room - 1);
    }
    bool new = is_free(&readers->use[at]);
    if (new && 2 * (readers->count + 1) > readers->room) {
        return false;
    }
    put_use(&readers->use[at], use);
    readers->count += new;
    readers->weak |= !(use->flags & ACCESS_ATOMIC);
    readers->strong_writes |= (use->flags & ACCESS_WRITE) != 0;
    readers->narrow |= (use->flags & (ACCESS_OF_CTA | ACCESS_BARE)) != 0;
    return true;
}

/* *lost: the launch has spent its budget for readers, and the table stays as it is.  False: no memory. */
static bool grow_readers(struct races *races, struct readers *readers, bool *lost) {
    struct readers grown = {.room = readers->room == 0 ? FIRST_READERS : 2 * readers->room};
    *lost = !races_take_room(races, grown.room * sizeof *grown.use);
    if (*lost) {
        return true;
    }
    grown.use = calloc(grown.room, sizeof *grown.use);
    if (grown.use == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < readers->room; i++) {
        if (!is_free(&readers->use[i])) {
            (void)put_reader(&grown, &readers->use[i]);
        }
    }
    free(readers->use);
    races_give_room(races, readers->room * sizeof *readers->use);
    *readers = grown;
    return true;
}

/* ---- an access ---- */

/* Notes a write of other values that the running store covers. */
static void note_other(const struct line_access *access, const struct line_use *use, struct line_time *other) {
    const uint64_t both[RECORD_WORDS] = {use->mask[0] & access->mask[0], use->mask[1] & access->mask[1]};
    if (access->run->leaves_memory == NULL ||
        access->run->leaves_memory(access->run, access->allocation->base + access->start, both)) {
        *other = other->value == 0 ? use->other : *other;
    } else {
        *other = use->time;
    }
}

static uint32_t lane_at(const struct lane_pattern *lanes, uint32_t byte) {
    return lanes->lane + (byte - lanes->first) / lanes->bytes;
}

/* Reports two lanes of the running warp that use the same bytes although the warp has not synchronised in
 * between. */
static void check_lanes(const struct line_access *access, const struct line_use *use) {
    struct run *run = access->run;
    const struct warp *warp = run->warp;
    const uint64_t both[RECORD_WORDS] = {use->mask[0] & access->mask[0], use->mask[1] & access->mask[1]};
    const uint32_t byte = (uint32_t)(both[0] != 0 ? __builtin_ctzll(both[0]) : 64 + __builtin_ctzll(both[1]));
    if (use->lanes.bytes == 0 || access->lanes.bytes == 0 || !is_own_index(warp, use->time.clock_index) ||
        !is_own_index(warp, access->epoch->clock_index) || use->time.value <= warp->whole_time ||
        (both_bare(use->flags, access->flags) && use->time.value <= warp->fenced_time) ||
        lane_at(&use->lanes, byte) == lane_at(&access->lanes, byte) ||
        lanes_synced(warp, use->time.value, lane_at(&use->lanes, byte), lane_at(&access->lanes, byte))) {
        return;
    }
    sim_note_global(run->launch, SIM_REVIEW, "lane-race", run->cta, (int)warp->index,
                    (int)lane_at(&access->lanes, byte), access->allocation, access->start + byte, run->insn,
                    &run->launch->module->code[use->pc],
                    "two lanes of a warp use the same global memory, one of them writing, without __syncwarp");
}

/* Checks the access against a use.  True if the use has to be remembered further. */
static inline bool meet(const struct line_access *access, const struct line_use *use, struct line_time *other,
                        bool roomy) {
    const struct run *run = access->run;
    const bool write = access->flags & ACCESS_WRITE, wrote = use->flags & ACCESS_WRITE;
    /* Program order reaches neither from one proxy to the other nor from a bulk store to a bulk load. */
    const bool mine =
        is_own(run, use) &&
        !(wrote && ((use->flags ^ access->flags) & ACCESS_ASYNC || (use->flags & ACCESS_ASYNC && !write)));
    const bool both = (write || wrote) && overlap(use->mask, access->mask);
    if (both && mine && !both_strong(use->flags, access->flags)) {
        check_lanes(access, use);
    }
    const bool conflict = !mine && both && (!both_strong(use->flags, access->flags) || too_narrow(access, use));
    enum order order = conflict ? order_of(access, use) : ORDERED;
    enum sim_verdict verdict = SIM_CLEAN;
    if (order != ORDERED) {
        verdict = report(access, use, order);
    } else if (both && write && wrote) {
        note_other(access, use, other);
    }
    /* A later access ordered after this write is ordered after the uses that it covers, too.  Equal stores
     * without an order both stay: a third may differ from either. */
    return !((conflict || mine) && write && within(use->mask, access->mask)) ||
           (wrote && verdict == SIM_REVIEW && roomy) || (order == ORDERED && hides(use->flags, access->flags));
}

static void report_forgotten(const struct line_access *access, uint64_t bytes[RECORD_WORDS]) {
    if (overlap(bytes, access->mask)) {
        sim_note_global(
            access->run->launch, SIM_INCOMPLETE, "global-race", access->run->cta, (int)access->run->warp->index,
            access->lane, access->allocation, access->start, access->run->insn, NULL,
            "uses global memory that more warps of the launch have used than the checks can remember: "
            "not judged");
        bytes[0] &= ~access->mask[0]; /* report these bytes once */
        bytes[1] &= ~access->mask[1];
    }
}

/* Checks an access against the uses in the table.  Most lines with many users have atomics only. */
static void meet_table(const struct line_access *access, struct more_uses *more) {
    struct readers *readers = &more->readers;
    const bool strong = access->flags & ACCESS_ATOMIC, write = access->flags & ACCESS_WRITE;
    const bool meets = (write && readers->weak) || (!strong && (write || readers->strong_writes)) ||
                       (strong && (readers->narrow || (access->flags & ACCESS_OF_CTA)));
    for (uint32_t i = 0; meets && readers->count > 0 && i < readers->room; i++) {
        struct line_time none = {.value = 0};
        if (!is_free(&readers->use[i]) && !meet(access, &readers->use[i], &none, false)) {
            /* This may hide a colliding entry from a later look-up, which then enters it twice: harmless. */
            readers->use[i] = (struct line_use){.flags = 0};
            readers->count--;
        }
    }
    if (write) {
        report_forgotten(access, more->forgotten[WEAK_READS]);
    }
    if (!strong) {
        report_forgotten(access, more->forgotten[STRONG_WRITES]);
    }
    if (write && !strong) {
        report_forgotten(access, more->forgotten[STRONG_READS]);
    }
}

static bool keep_in_table(const struct line_access *access, struct line_uses *uses,
                          const struct line_use *own) {
    struct races *races = access->run->launch->races;
    bool lost = false;
    if (!make_more(uses)) {
        return false;
    }
    struct readers *readers = &uses->more->readers;
    while (!lost && !put_reader(readers, own)) {
        if (!grow_readers(races, readers, &lost)) {
            return false;
        }
    }
    if (lost) {
        uint64_t *bytes = uses->more->forgotten[own->flags & ACCESS_WRITE    ? STRONG_WRITES
                                                : own->flags & ACCESS_ATOMIC ? STRONG_READS
                                                                             : WEAK_READS];
        bytes[0] |= own->mask[0];
        bytes[1] |= own->mask[1];
    }
    return true;
}

/* Notes whether an L1 may have old bytes of the line: stores of other SMs do not reach it, only a fence empties
 * it. */
static void note_fetch(struct line_access *access, struct line_uses *uses) {
    const struct run *run = access->run;
    const uint32_t own = (uint32_t)run->cluster->number + 1;
    if (access->flags & ACCESS_WRITE) {
        uses->stale |= uses->fetched != 0 && uses->fetched != own;
        return;
    }
    if (access->flags & (ACCESS_ATOMIC | ACCESS_ASYNC)) {
        return;
    }
    uses->fetched = uses->fetched == 0 || uses->fetched == own ? own : MANY;
    for (uint32_t i = 0; i < uses->count && !uses->stale; i++) {
        const struct line_use *use = use_at(uses, i);
        uses->stale = (use->flags & ACCESS_WRITE) && use->time.cluster + 1 != own &&
                      !comes_after(access, &use->time) && !noticed(access, &use->time) &&
                      !((use->flags & ACCESS_ATOMIC) && comes_later(access, &use->time));
    }
    access->stale = uses->stale;
}

/* Empties the record of a line that an earlier launch used last. */
static void begin_launch(const struct line_access *access, struct line_uses *uses) {
    uses->launch = access->run->launch->order.number;
    uses->count = 0;
    uses->fetched = 0;
    uses->stale = false;
    if (uses->more != NULL) {
        free(uses->more->readers.use); /* its bytes were in the budget of that launch */
        uses->more->readers = (struct readers){.count = 0};
        memset(uses->more->forgotten, 0, sizeof uses->more->forgotten);
    }
}

bool races_meet(struct line_access *access, struct line_uses *uses) {
    struct run *run = access->run;
    const struct epoch *epoch = access->epoch;
    const bool write = access->flags & ACCESS_WRITE;
    struct line_use own = {.mask = {access->mask[0], access->mask[1]},
                           .time = {(uint32_t)run->cluster->number, epoch->value, (uint16_t)epoch->clock_index},
                           .pc = (uint32_t)(epoch->insn - run->launch->module->code),
                           .warp = (uint16_t)run->warp->number,
                           .lanes = access->lanes,
                           .flags = (uint8_t)access->flags};
    if (uses->launch != run->launch->order.number) {
        begin_launch(access, uses);
    }
    note_fetch(access, uses);
    struct line_use *earlier = NULL;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < uses->count; i++) {
        struct line_use *use = use_at(uses, i);
        if (!meet(access, use, &own.other, uses->count < LISTED)) {
            continue;
        }
        struct line_use *stays = use_at(uses, kept);
        if (stays != use) {
            *stays = *use;
        }
        earlier = replaces(&own, stays) ? stays : earlier;
        kept++;
    }
    uses->count = kept;
    if (uses->more != NULL) {
        meet_table(access, uses->more);
    }
    if (earlier != NULL) {
        put_use(earlier, &own);
        return true;
    }
    if (kept >= LISTED && (!write || (own.flags & ACCESS_ATOMIC))) {
        return keep_in_table(access, uses, &own);
    }
    if (!make_room(uses)) {
        return false;
    }
    *use_at(uses, uses->count++) = own;
    return true;
}
