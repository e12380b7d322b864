/* The shadow record of shared memory: for each 16 bytes, the accesses that a later one may conflict with. */
#include <stdlib.h>

#include "conflict.h"

#define GRANULE_SHIFT 4
#define ALL_SEVERAL   0xffffffffu
#define AHEAD         8 /* prefetch distance in a list of granules */
#define RECORDS       6 /* accesses that a granule holds itself; further ones go to its spill */

struct granule {
    _Alignas(64) uint16_t written; /* bytes that anything has written */
    uint8_t count, meeting;        /* meeting: the last before its records, modulo 256 */
    uint32_t spill;                /* 1 + index of its spill; 0: none */
    struct shadow_record records[RECORDS];
};

/* The older records of a granule that many warps use at once, as the consumers of a ring's stage do.  No record
 * may be dropped: a race with it would go unnoticed. */
struct spill {
    struct shadow_record *records;
    uint32_t count, room;
    uint32_t writes; /* records of writes among them */
};

struct shadow {
    uint32_t count, nspills, spill_room;
    uint8_t meeting; /* how often all threads have met, modulo 256 */
    struct granule *granules;
    struct spill *spills;
};

void shadow_make(struct cta *cta) {
    struct worker *worker = cta->cluster->worker;
    struct shadow *shadow = cta->shadow = run_take(worker, 1, sizeof *shadow);
    uint32_t count = (cta->shared_bytes >> GRANULE_SHIFT) + 1;
    shadow->granules = run_take_aligned(worker, _Alignof(struct granule), count * sizeof *shadow->granules);
    shadow->count = count;
    shadow_reset(shadow);
}

void shadow_reset(struct shadow *shadow) {
    for (uint32_t i = 0; i < shadow->count; i++) {
        shadow->granules[i].written = shadow->granules[i].count = 0;
        shadow->granules[i].spill = 0;
    }
    shadow->nspills = 0;
}

void shadow_free(struct shadow *shadow) {
    if (shadow != NULL) {
        for (uint32_t i = 0; i < shadow->spill_room; i++) {
            free(shadow->spills[i].records);
        }
        free(shadow->spills);
        free(shadow->granules);
        free(shadow);
    }
}

void shadow_met(struct cta *cta) {
    if (cta->shadow != NULL && cta->cluster->nctas == 1 && !cta->cluster->launch->asynchronous) {
        cta->shadow->meeting++;
    }
}

/* Drops the records of a granule from before the last meeting of all threads. */
static inline void forget_ordered(struct shadow *shadow, struct granule *granule) {
    if (granule->meeting != shadow->meeting) {
        granule->meeting = shadow->meeting;
        granule->count = 0;
        if (granule->spill != 0) {
            shadow->spills[granule->spill - 1].count = shadow->spills[granule->spill - 1].writes = 0;
        }
    }
}

/* The spill of a granule, made at its first use. */
static struct spill *spill_of(struct run *run, struct shadow *shadow, struct granule *granule) {
    if (granule->spill != 0) {
        return &shadow->spills[granule->spill - 1];
    }
    RUN_GROW(run->worker, shadow->spills, shadow->nspills, shadow->spill_room);
    struct spill *spill = &shadow->spills[shadow->nspills++];
    spill->count = spill->writes = 0; /* a granule of an earlier cluster used it; its memory is reused */
    granule->spill = shadow->nspills;
    return spill;
}

/* Makes room for one more record: moves the oldest reader, or else the oldest writer, to the spill. */
static uint32_t make_room(struct run *run, struct shadow *shadow, struct granule *granule, uint32_t count) {
    struct shadow_record *records = granule->records;
    if (count < RECORDS) {
        return count;
    }
    uint32_t leaves = 0;
    while (leaves < RECORDS && (records[leaves].flags & ACCESS_WRITE)) {
        leaves++;
    }
    leaves = leaves == RECORDS ? 0 : leaves;
    struct spill *spill = spill_of(run, shadow, granule);
    RUN_GROW(run->worker, spill->records, spill->count, spill->room);
    spill->writes += (records[leaves].flags & ACCESS_WRITE) != 0;
    spill->records[spill->count++] = records[leaves];
    memmove(&records[leaves], &records[leaves + 1], (RECORDS - leaves - 1) * sizeof *records);
    return count - 1;
}

static void put_record(struct shadow_record *record, const struct run *run, const struct touch *touch,
                       unsigned flags, const struct epoch *epoch) {
    record->value = epoch->value;
    record->pc = (uint32_t)(epoch->insn - run->launch->module->code);
    record->clock_index = (uint16_t)epoch->clock_index;
    record->bytes = (uint16_t)touch->bytes;
    record->flags = (uint8_t)flags;
    record->lanes = touch->lanes;
}

static void check_writers(struct run *run, const struct shadow_record *records, uint32_t count,
                          const struct touch *touch, unsigned flags, const struct epoch *epoch) {
    for (uint32_t i = 0; i < count; i++) {
        if ((records[i].flags & ACCESS_WRITE) && (records[i].bytes & touch->bytes)) {
            (void)check_conflict(run, &records[i], touch, flags, epoch);
        }
    }
}

/* A fast path for repeated asynchronous reads with one clock index, as tensor cores make them: the new read
 * replaces the record of the earlier one. */
static bool read_again(struct run *run, const struct shadow *shadow, struct granule *granule,
                       const struct touch *touch, unsigned flags, const struct epoch *epoch) {
    uint32_t last = granule->count - 1u;
    const struct shadow_record *own = &granule->records[last];
    if (granule->count == 0 || flags != ACCESS_ASYNC || own->flags != ACCESS_ASYNC ||
        own->clock_index != epoch->clock_index || (own->bytes & ~touch->bytes) != 0) {
        return false;
    }
    if (granule->spill != 0) {
        const struct spill *spill = &shadow->spills[granule->spill - 1];
        check_writers(run, spill->records, spill->count, touch, flags, epoch);
    }
    check_writers(run, granule->records, last, touch, flags, epoch);
    put_record(&granule->records[last], run, touch, flags, epoch);
    return true;
}

/* True for the most frequent cases, in which check_conflict finds nothing: the recorded access comes before
 * this one with all lanes of its warp, or each lane of the running warp uses what it has used itself. */
static inline bool plainly_ordered(const struct run *run, const struct shadow_record *record,
                                   const struct touch *touch, unsigned flags, const struct epoch *epoch) {
    const uint32_t index = record->clock_index, of_warps = run->cluster->nctas * run->launch->warps;
    const uint32_t own = run->warp->number;
    if ((flags & ACCESS_ASYNC) != 0 || (record->flags & ACCESS_COPY) != 0 ||
        epoch->clock->acquired[index] < record->value) {
        return false;
    }
    return index == own || index == of_warps + own
               ? record->value <= run->warp->whole_time || record->lanes == touch->lanes
               : index >= of_warps || epoch->clock->per_lane[index] >= record->value;
}

/* Checks an access against records and drops those that it makes redundant; returns how many stay. */
static inline uint32_t meet(struct run *run, struct shadow_record *records, uint32_t count,
                            const struct touch *touch, unsigned flags, const struct epoch *epoch, bool *varied,
                            bool *quiet) {
    bool write = flags & ACCESS_WRITE;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        const struct shadow_record *record = &records[i];
        bool conflict = (record->bytes & touch->bytes) && (write || record->flags & ACCESS_WRITE) &&
                        !both_strong(record->flags, flags);
        bool same_index = record->clock_index == epoch->clock_index;
        const bool told = conflict && !plainly_ordered(run, record, touch, flags, epoch) &&
                          check_conflict(run, record, touch, flags, epoch);
        *quiet &= !told;
        *varied |= conflict && same_index && varies(run, record, touch, flags, epoch);
        /* Drop the bytes of a record for which an order after the new access implies an order after it.  A
         * clock reaches the values of one index in order. */
        bool implied =
            write ? conflict || same_index || epoch->clock->acquired[record->clock_index] >= record->value
                  : !(record->flags & ACCESS_WRITE) && same_index;
        implied &= (told && !is_own_index(run->warp, record->clock_index)) || !hides(record->flags, flags);
        const uint16_t left = (uint16_t)(implied ? record->bytes & ~touch->bytes : record->bytes);
        if (left != 0) {
            if (kept != i) {
                records[kept] = *record;
            }
            records[kept++].bytes = left;
        }
    }
    return kept;
}

/* What meet does for a read among reads: drops those with its clock index that it covers. */
static void drop_reads(struct spill *spill, const struct touch *touch, const struct epoch *epoch) {
    struct shadow_record *records = spill->records;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < spill->count; i++) {
        if (records[i].clock_index == epoch->clock_index && (records[i].bytes & ~touch->bytes) == 0) {
            continue;
        }
        if (kept != i) {
            records[kept] = records[i];
        }
        kept++;
    }
    spill->count = kept;
}

static void count_writes(struct spill *spill) {
    spill->writes = 0;
    for (uint32_t i = 0; i < spill->count; i++) {
        spill->writes += (spill->records[i].flags & ACCESS_WRITE) != 0;
    }
}

/* True if one of the records is a write by the running warp. */
static bool own_write(const struct run *run, const struct shadow_record *records, uint32_t count) {
    bool found = false;
    for (uint32_t i = 0; i < count; i++) {
        found |= (records[i].flags & ACCESS_WRITE) != 0 && is_own_index(run->warp, records[i].clock_index);
    }
    return found;
}

/* A fast path for a plain read of the same bytes at the same time of the warp, with nothing but reads since:
 * what the first one passed, this one passes, unless the lanes are others and may race with a write of their
 * own warp. It moves to the end of the list, as a new record would. */
static bool read_once_more(const struct run *run, const struct shadow *shadow, struct granule *granule,
                           const struct touch *touch, unsigned flags, const struct epoch *epoch) {
    struct shadow_record *records = granule->records;
    if (flags != ACCESS_READ) {
        return false;
    }
    const bool written = granule->spill != 0 && shadow->spills[granule->spill - 1].writes != 0;
    for (uint32_t i = granule->count; i > 0 && records[i - 1].flags == ACCESS_READ; i--) {
        struct shadow_record own = records[i - 1];
        if (own.clock_index == epoch->clock_index) {
            if (own.value != epoch->value || own.bytes != touch->bytes || !own.quiet ||
                (own.lanes != touch->lanes && (written || own_write(run, records, i - 1)))) {
                return false;
            }
            own.lanes = touch->lanes;
            own.pc = (uint32_t)(epoch->insn - run->launch->module->code);
            for (; i < granule->count; i++) {
                records[i - 1] = records[i];
            }
            records[granule->count - 1u] = own;
            return true;
        }
    }
    return false;
}

static void check_granule(struct run *run, struct shadow *shadow, struct granule *granule,
                          const struct touch *touch, unsigned flags, const struct epoch *epoch) {
    forget_ordered(shadow, granule);
    if (read_again(run, shadow, granule, touch, flags, epoch) ||
        read_once_more(run, shadow, granule, touch, flags, epoch)) {
        return;
    }
    bool quiet = true;
    if (flags & ACCESS_WRITE) {
        granule->written |= (uint16_t)touch->bytes;
    } else if (!(flags & ACCESS_ASYNC) && (touch->bytes & ~(uint32_t)granule->written) != 0) {
        int byte = __builtin_ctz(touch->bytes & ~(uint32_t)granule->written);
        uint32_t lane = touch->lanes >> (8 * (byte / (GRANULE / WORDS))) & SEVERAL_LANES;
        quiet = false;
        sim_note_at(run->launch, SIM_REVIEW, "uninitialised-read", run->cta, (int)run->warp->index,
                    lane == SEVERAL_LANES ? -1 : (int)lane, touch->offset + byte, run->insn, NULL,
                    "reads shared memory that nothing has written");
    }
    bool varied = false;
    if (granule->spill != 0) {
        struct spill *spill = &shadow->spills[granule->spill - 1];
        if ((flags & ACCESS_WRITE) == 0 && spill->writes == 0) {
            drop_reads(spill, touch, epoch);
        } else {
            spill->count = meet(run, spill->records, spill->count, touch, flags, epoch, &varied, &quiet);
            count_writes(spill);
        }
    }
    uint32_t kept = meet(run, granule->records, granule->count, touch, flags, epoch, &varied, &quiet);
    kept = make_room(run, shadow, granule, kept);
    put_record(&granule->records[kept], run, touch, flags | (varied ? ACCESS_VARIED : 0u), epoch);
    granule->records[kept].quiet = quiet;
    granule->count = (uint8_t)(kept + 1);
}

enum next hazard_range(struct run *run, struct cta *cta, uint32_t offset, uint32_t bytes, unsigned flags,
                       const struct epoch *epoch) {
    remote_note(run, cta, epoch);
    for (uint32_t at = offset, end = offset + bytes; at < end;) {
        uint32_t granule = at >> GRANULE_SHIFT, first = at % GRANULE;
        uint32_t size = end - at < GRANULE - first ? end - at : GRANULE - first;
        struct touch touch = {((1u << size) - 1) << first, ALL_SEVERAL, granule << GRANULE_SHIFT, cta};
        check_granule(run, cta->shadow, &cta->shadow->granules[granule], &touch, flags, epoch);
        at += size;
    }
    return NEXT;
}

void hazard_copies(struct run *run, const uint32_t offsets[LANES], uint32_t mask, uint32_t bytes,
                   const struct epoch *epoch) {
    FOR_LANES(rest, mask) {
        const uint32_t at = offsets[LANE(rest)], granule = at >> GRANULE_SHIFT;
        struct touch touch = {((1u << bytes) - 1) << at % GRANULE, 0x01010101u * (uint32_t)LANE(rest),
                              granule << GRANULE_SHIFT, run->cta};
        check_granule(run, run->cta->shadow, &run->cta->shadow->granules[granule], &touch,
                      ACCESS_WRITE | ACCESS_COPY, epoch);
    }
}

void hazard_granules(struct run *run, struct cta *cta, const uint32_t *offsets, uint32_t count,
                     const struct epoch *epoch) {
    struct touch whole = {.bytes = (1u << GRANULE) - 1, .lanes = ALL_SEVERAL, .cta = cta};
    struct granule *granules = cta->shadow->granules;
    remote_note(run, cta, epoch);
    for (uint32_t i = 0; i < count; i++) {
        if (i + AHEAD < count) {
            __builtin_prefetch(&granules[offsets[i + AHEAD] >> GRANULE_SHIFT], 1);
        }
        whole.offset = offsets[i] >> GRANULE_SHIFT << GRANULE_SHIFT;
        check_granule(run, cta->shadow, &granules[offsets[i] >> GRANULE_SHIFT], &whole, ACCESS_ASYNC, epoch);
    }
}

/* touch_add for a whole aligned word, the most frequent access. */
static inline void touch_word(struct touch *touch, uint32_t word, int lane) {
    const uint32_t part = 0xfu << (4 * word);
    const uint32_t who = touch->bytes & part ? SEVERAL_LANES : (uint32_t)lane;
    touch->lanes = (touch->lanes & ~(0xffu << (8 * word))) | who << (8 * word);
    touch->bytes |= part;
}

/* Adds the bytes that a lane touches in the granule. */
static void touch_add(struct touch *touch, uint32_t bytes, int lane) {
    for (int word = 0; word < WORDS; word++) {
        uint32_t part = 0xfu << (4 * word);
        if (bytes & part) {
            uint32_t who = touch->bytes & part ? SEVERAL_LANES : (uint32_t)lane;
            touch->lanes = (touch->lanes & ~(0xffu << (8 * word))) | who << (8 * word);
        }
    }
    touch->bytes |= bytes;
}

void hazard_lanes(struct run *run, struct cta *cta, const uint32_t offsets[LANES], uint32_t mask,
                  uint32_t bytes, unsigned flags) {
    struct epoch epoch = warp_epoch(run, mask);
    remote_note(run, cta, &epoch);
    uint32_t last = UINT32_MAX;
    struct touch touch = {.cta = cta};
    if (bytes > GRANULE || (flags & ACCESS_MIXED)) {
        FOR_LANES(rest, mask) {
            (void)hazard_range(run, cta, offsets[LANE(rest)], bytes, flags, &epoch);
        }
        return;
    }
    const bool in_a_row = bytes == sizeof(uint32_t) && mask == ALL_LANES && offsets[0] % GRANULE == 0 &&
                          IN_A_ROW(uint32_t, offsets, bytes);
    for (uint32_t i = 0; in_a_row && i < LANES / WORDS; i++) {
        const uint32_t granule = (offsets[0] >> GRANULE_SHIFT) + i;
        touch =
            (struct touch){(1u << GRANULE) - 1, 0x03020100u + 0x04040404u * i, granule << GRANULE_SHIFT, cta};
        check_granule(run, cta->shadow, &cta->shadow->granules[granule], &touch, flags, &epoch);
    }
    if (in_a_row) {
        return;
    }
    /* Neighbouring lanes share a granule and are checked together. */
    FOR_LANES(rest, mask) {
        uint32_t at = offsets[LANE(rest)], granule = at >> GRANULE_SHIFT;
        if (granule != last) {
            if (touch.bytes != 0) {
                check_granule(run, cta->shadow, &cta->shadow->granules[last], &touch, flags, &epoch);
            }
            last = granule;
            touch.bytes = touch.lanes = 0;
            touch.offset = granule << GRANULE_SHIFT;
        }
        if (bytes == sizeof(uint32_t)) { /* aligned: shared_access has checked it */
            touch_word(&touch, at % GRANULE / (uint32_t)sizeof(uint32_t), LANE(rest));
        } else {
            touch_add(&touch, ((1u << bytes) - 1) << at % GRANULE, LANE(rest));
        }
    }
    if (touch.bytes != 0) {
        check_granule(run, cta->shadow, &cta->shadow->granules[last], &touch, flags, &epoch);
    }
}

static const struct shadow_record *unacquired(const struct shadow_record *records, uint32_t count,
                                              const uint32_t *acquired) {
    for (uint32_t i = 0; i < count; i++) {
        const struct shadow_record *record = &records[i];
        if ((record->flags & ACCESS_WRITE) && (record->flags & ACCESS_ASYNC) &&
            acquired[record->clock_index] < record->value) {
            return record;
        }
    }
    return NULL;
}

const struct insn *hazard_unacquired_write(const struct launch *launch, const struct cta *cta, uint32_t offset,
                                           const uint32_t *acquired) {
    const struct granule *granule = &cta->shadow->granules[offset >> GRANULE_SHIFT];
    const struct shadow_record *record = unacquired(granule->records, granule->count, acquired);
    if (record == NULL && granule->spill != 0) {
        const struct spill *spill = &cta->shadow->spills[granule->spill - 1];
        record = unacquired(spill->records, spill->count, acquired);
    }
    return record == NULL ? NULL : &launch->module->code[record->pc];
}
