/* Who has read and written each 16 bytes of shared memory, as far as a later access may conflict. */
#include <stdlib.h>

#include "hazard.h"

#define GRANULE       16
#define GRANULE_SHIFT 4
#define MARKS         6 /* remembered accesses of a granule; more readers than that push out the oldest */

struct mark {
    uint32_t value, pc;
    uint16_t slot, bytes; /* a bit a byte of the granule */
    uint8_t flags, warp_low, pad[2];
};

struct shadow {
    uint32_t granules;
    uint8_t *count;
    struct mark *marks;
};

struct shadow *shadow_make(struct cta *cta) {
    struct shadow *shadow = calloc(1, sizeof *shadow);
    if (shadow == NULL) {
        return NULL;
    }
    shadow->granules = (cta->shared_bytes >> GRANULE_SHIFT) + 1;
    shadow->count = calloc(shadow->granules, 1);
    shadow->marks = malloc(shadow->granules * MARKS * sizeof *shadow->marks);
    if (shadow->count == NULL || shadow->marks == NULL) {
        shadow_free(shadow);
        return NULL;
    }
    return shadow;
}

void shadow_reset(struct shadow *shadow) {
    memset(shadow->count, 0, shadow->granules);
}

void shadow_free(struct shadow *shadow) {
    if (shadow != NULL) {
        free(shadow->count);
        free(shadow->marks);
        free(shadow);
    }
}

struct verdict {
    const char *kind, *message;
};

/* What is wrong about `flags` now, after an access `before` that is not ordered in front of it. */
static struct verdict unordered(uint8_t before, unsigned flags) {
    bool was_write = before & ACCESS_WRITE, was_async = before & (ACCESS_ASYNC | ACCESS_COPY);
    bool write = flags & ACCESS_WRITE, async = flags & ACCESS_ASYNC;
    if (was_async && was_write && !write) {
        return (struct verdict){
            "read-before-landing",
            "reads shared memory that an asynchronous operation writes, without having waited "
            "for its completion"};
    }
    if (was_async && !was_write) {
        return (struct verdict){
            "overwrite-while-read",
            "writes shared memory that an asynchronous operation may still read: its completion "
            "has not been waited for, or that was not signalled to this thread"};
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

static void accuse(struct run *run, const struct mark *mark, const struct verdict *verdict) {
    const struct insn *other = &run->launch->module->code[mark->pc];
    sim_note(run->launch, SIM_ERROR, verdict->kind, run->cta, (int)run->warp->index, -1, run->insn, other,
             verdict->message);
}

static void check_granule(struct run *run, struct shadow *shadow, uint32_t granule, uint32_t bytes,
                          unsigned flags, const struct stamp *stamp) {
    struct mark *marks = &shadow->marks[granule * MARKS];
    uint32_t count = shadow->count[granule], kept = 0;
    bool write = flags & ACCESS_WRITE;
    for (uint32_t i = 0; i < count; i++) {
        struct mark mark = marks[i];
        bool overlap = mark.bytes & bytes;
        bool both_atomic = mark.flags & flags & (ACCESS_ATOMIC | ACCESS_BARRIER);
        bool conflict = overlap && (write || mark.flags & ACCESS_WRITE) && !both_atomic;
        bool ordered = stamp->clock->seen[mark.slot] >= mark.value;
        if (conflict && !ordered) {
            struct verdict verdict = unordered(mark.flags, flags);
            accuse(run, &mark, &verdict);
        } else if (conflict && (flags & ACCESS_ASYNC) && (mark.flags & ACCESS_WRITE) &&
                   !(mark.flags & (ACCESS_ASYNC | ACCESS_BARRIER)) &&
                   stamp->clock->async[mark.slot] < mark.value) {
            accuse(run, &mark,
                   &(struct verdict){
                       "missing-proxy-fence",
                       "an asynchronous operation uses shared memory written by ordinary stores, with "
                       "no fence.proxy.async in between"});
        }
        /* Who comes after the new access comes after this one too: it need not be remembered. */
        bool covered = (mark.bytes & ~bytes) == 0 && (ordered || conflict) &&
                       (write || (!(mark.flags & ACCESS_WRITE) && mark.slot == stamp->slot));
        if (!covered) {
            marks[kept++] = mark;
        }
    }
    if (kept == MARKS) {
        uint32_t victim = 0;
        while (victim + 1 < MARKS && (marks[victim].flags & ACCESS_WRITE)) { /* readers first */
            victim++;
        }
        memmove(&marks[victim], &marks[victim + 1], (MARKS - victim - 1) * sizeof *marks);
        kept--;
    }
    marks[kept] = (struct mark){stamp->value,
                                (uint32_t)(stamp->insn - run->launch->module->code),
                                (uint16_t)stamp->slot,
                                (uint16_t)bytes,
                                (uint8_t)flags,
                                0,
                                {0, 0}};
    shadow->count[granule] = (uint8_t)(kept + 1);
}

enum next hazard_range(struct run *run, struct cta *cta, uint32_t offset, uint32_t bytes, unsigned flags,
                       const struct stamp *stamp) {
    struct shadow *shadow = cta->shadow;
    for (uint32_t at = offset, end = offset + bytes; at < end;) {
        uint32_t granule = at >> GRANULE_SHIFT, first = at % GRANULE;
        uint32_t size = end - at < GRANULE - first ? end - at : GRANULE - first;
        check_granule(run, shadow, granule, ((1u << size) - 1) << first, flags, stamp);
        at += size;
    }
    return NEXT;
}

enum next hazard_lanes(struct run *run, struct cta *cta, const uint32_t offsets[LANES], uint32_t mask,
                       uint32_t bytes, unsigned flags) {
    const struct clockv *clock = run->warp->clock;
    struct stamp stamp = {run->warp->number, clock->seen[run->warp->number], clock, run->warp->number,
                          run->insn};
    uint32_t last = UINT32_MAX, gathered = 0;
    if (bytes > GRANULE) {
        FOR_LANES(rest, mask) {
            (void)hazard_range(run, cta, offsets[LANE(rest)], bytes, flags, &stamp);
        }
        return NEXT;
    }
    /* Lanes side by side share a granule: one check for all of them. */
    FOR_LANES(rest, mask) {
        uint32_t at = offsets[LANE(rest)], granule = at >> GRANULE_SHIFT;
        uint32_t touched = ((1u << bytes) - 1) << at % GRANULE;
        if (granule != last) {
            if (gathered != 0) {
                check_granule(run, cta->shadow, last, gathered, flags, &stamp);
            }
            last = granule;
            gathered = 0;
        }
        gathered |= touched;
    }
    if (gathered != 0) {
        check_granule(run, cta->shadow, last, gathered, flags, &stamp);
    }
    return NEXT;
}

const struct insn *hazard_unseen_write(const struct launch *launch, const struct cta *cta, uint32_t offset,
                                       const uint32_t *seen) {
    const struct shadow *shadow = cta->shadow;
    uint32_t granule = offset >> GRANULE_SHIFT;
    for (uint32_t i = 0; i < shadow->count[granule]; i++) {
        const struct mark *mark = &shadow->marks[granule * MARKS + i];
        if ((mark->flags & ACCESS_WRITE) && (mark->flags & ACCESS_ASYNC) && seen[mark->slot] < mark->value) {
            return &launch->module->code[mark->pc];
        }
    }
    return NULL;
}
