/* The record of global memory, and the check for conflicting accesses of different launches without an order.
 *
 * A line remembers the last launch that wrote it and the last that read it, with the bytes.  The use by a
 * launch before that moves to a list, unless the newer use is ordered after it and covers its bytes: a launch
 * ordered after the newer use is then ordered after both.  Launches run one after another, so a launch does not
 * check again what it has recorded once. */
#include "global_record.h"

#include "delayed.h"
#include "hazard/hazard.h"
#include "launch_report.h"
#include "line.h"
#include "races.h"

/* Bits `first` to `first + bytes`. */
static inline void set_mask(uint64_t mask[RECORD_WORDS], uint32_t first, uint32_t bytes) {
    const uint32_t word_bytes = 64;
    mask[0] = mask[1] = 0;
    if (bytes == RECORD_BYTES) {
        mask[0] = mask[1] = UINT64_MAX;
        return;
    }
    for (uint32_t end = first + bytes; first < end;) {
        uint32_t low = first % word_bytes, left = word_bytes - low;
        uint32_t here = end - first < left ? end - first : left;
        mask[first / word_bytes] |= UINT64_MAX >> (word_bytes - here) << low;
        first += here;
    }
}

/* ---- an access ---- */

/* The instruction that used these bytes: one of the recorded places, else the last one of the use. */
static uint32_t place_of(const struct line *line, const struct use *use, const uint64_t mask[RECORD_WORDS]) {
    for (uint32_t i = 0; line->more != NULL && i < line->more->count; i++) {
        const struct use *other = &line->more->uses[i];
        if (other->place && other->launch == use->launch && other->write == use->write &&
            overlap(other->mask, mask)) {
            return other->pc;
        }
    }
    return use->pc;
}

/* The first byte that both use, in the allocation. */
static uint64_t first_of(const struct access *access, const struct line *line, const struct use *use,
                         const uint64_t mask[RECORD_WORDS]) {
    const uint64_t low = use->mask[0] & mask[0], high = use->mask[1] & mask[1];
    const uint64_t start = (uint64_t)(line - access->allocation->lines->line) << RECORD_SHIFT;
    return start + (uint64_t)(low != 0 ? __builtin_ctzll(low) : 64 + __builtin_ctzll(high));
}

static void check(const struct access *access, const struct line *line, const struct use *use,
                  const uint64_t mask[RECORD_WORDS]) {
    if (use->launch == 0 || use->launch == access->launch->order.number || (!access->write && !use->write) ||
        (access->strong && use->strong) || !overlap(use->mask, mask) || access->all_known) {
        return;
    }
    bool known = known_has(access->view, use->launch);
    bool lane = known && access->unsynced && !known_has(&access->launch->order.start, use->launch);
    if (!known || lane) {
        const struct launch_conflict conflict = {.launch = access->launch,
                                                 .run = access->run,
                                                 .allocation = access->allocation,
                                                 .offset = first_of(access, line, use, mask),
                                                 .lane = access->lane,
                                                 .early = access->early,
                                                 .write = access->write,
                                                 .lane_alone = lane,
                                                 .other_launch = use->launch,
                                                 .other_pc = place_of(line, use, mask),
                                                 .other_write = use->write};
        report_launches(&conflict);
    }
}

/* Notes what is written, and reports what is read before.  A bulk copy is exempt: it moves whole boxes, and
 * nobody uses their padding. */
static void check_written(const struct access *access, uint64_t index, const uint64_t mask[RECORD_WORDS]) {
    uint64_t *written = access->allocation->lines->written[index];
    const uint64_t missing[RECORD_WORDS] = {mask[0] & ~written[0], mask[1] & ~written[1]};
    if (!access->write) {
        if ((missing[0] | missing[1]) != 0 && access->run != NULL && !(access->flags & ACCESS_ASYNC)) {
            const int byte = missing[0] != 0 ? __builtin_ctzll(missing[0]) : 64 + __builtin_ctzll(missing[1]);
            sim_note_global(access->launch, SIM_REVIEW, "uninitialised-read", access->run->cta,
                            (int)access->run->warp->index, access->lane, access->allocation,
                            (index << RECORD_SHIFT) + (uint64_t)byte, access->run->insn, NULL,
                            "reads global memory that no kernel, copy or fill has written");
        }
        return;
    }
    written[0] |= mask[0];
    written[1] |= mask[1];
}

/* Checks an access against the other uses of its line and records it. */
static void meet(struct access *access, uint64_t index, const uint64_t mask[RECORD_WORDS]) {
    const struct allocation *allocation = access->allocation;
    struct line *line = &allocation->lines->line[index];
    struct launch *launch = access->launch;
    line_lock(line);
    if (access->strong && line->released != 0 && line->released != launch->order.number &&
        access->run != NULL) {
        /* A flag that an earlier launch set.  What it had stored before is not followed, so that everything the
         * launch did counts as released. */
        access->run->warp->clock->acquired[access->run->cluster->flag_index] = 1;
        access->all_known = true;
    }
    check(access, line, &line->last[1], mask);
    if (access->write) {
        check(access, line, &line->last[0], mask);
    }
    for (uint32_t i = 0; line->more != NULL && i < line->more->count; i++) {
        if (!line->more->uses[i].place) {
            check(access, line, &line->more->uses[i], mask);
        }
    }
    if (line->more != NULL) {
        line_prune(access, line, mask);
    }
    if (allocation->lines->knows_writes) {
        check_written(access, index, mask);
    }
    bool kept = line_note(access, line, mask);
    if (access->write && access->strong) {
        line->released = launch->order.number;
    }
    if (access->write && launch->order.delays) {
        uint64_t start = index << RECORD_SHIFT;
        kept = kept && delayed_note(&allocation->lines->images[index], access->run,
                                    (const uint8_t *)(uintptr_t)(allocation->base + start),
                                    allocation->bytes - start, mask);
    }
    line_unlock(line);
    if (!kept) {
        launch_no_memory(launch);
    }
}

/* True if the use by the running launch already covers this access.  Read without the lock: the masks of a
 * running launch only grow. */
static inline bool noted(const struct access *access, const struct line *line,
                         const uint64_t mask[RECORD_WORDS]) {
    const struct use *use = &line->last[access->write];
    return __atomic_load_n(&use->launch, __ATOMIC_ACQUIRE) == access->launch->order.number &&
           covers(use->mask, mask) && (use->early || !access->early) && (access->strong || !use->strong);
}

static void meet_uses(const struct access *access, uint64_t index, const uint64_t mask[RECORD_WORDS]) {
    struct lines *lines = access->allocation->lines;
    line_lock(&lines->line[index]);
    struct line_access own = {access->run,   access->allocation, index << RECORD_SHIFT, mask, access->epoch,
                              access->flags, access->lane,       access->lanes,         false};
    bool kept = races_meet(&own, &lines->uses[index]);
    if (lines->uses[index].more != NULL) {
        __atomic_store_n(&lines->any_uses, true, __ATOMIC_RELAXED);
    }
    line_unlock(&lines->line[index]);
    if (!kept) {
        launch_no_memory(access->launch);
    }
}

static inline void touch_line(struct access *access, uint64_t index, const uint64_t mask[RECORD_WORDS]) {
    if (access->launch->races != NULL && access->run != NULL) {
        meet_uses(access, index, mask);
    }
    if (access->strong || !noted(access, &access->allocation->lines->line[index], mask)) {
        meet(access, index, mask);
    }
}

static void touch(struct access *access, uint64_t address, uint64_t bytes) {
    uint64_t at = address - access->allocation->base, end = at + bytes;
    while (at < end) {
        uint32_t first = at & (RECORD_BYTES - 1);
        uint32_t size = end - at < RECORD_BYTES - first ? (uint32_t)(end - at) : RECORD_BYTES - first;
        uint64_t mask[RECORD_WORDS];
        set_mask(mask, first, size);
        touch_line(access, at >> RECORD_SHIFT, mask);
        at += size;
    }
}

static bool prepare(struct access *access, struct run *run, int lane, unsigned flags,
                    const struct epoch *epoch) {
    struct launch *launch = run->launch;
    if (access->allocation == NULL || access->allocation->lines == NULL) {
        return false;
    }
    bool waited = !launch->order.dependent || order_waited(run);
    access->launch = launch;
    access->run = run;
    access->view = waited ? &launch->order.waited : &launch->order.start;
    access->pc = (uint32_t)(run->insn - launch->module->code);
    access->lane = lane;
    access->flags = flags;
    access->epoch = epoch;
    access->strong = flags & ACCESS_ATOMIC;
    access->write = flags & ACCESS_WRITE;
    access->all_known = run->warp->clock->acquired[run->cluster->flag_index] != 0;
    access->unsynced = launch->order.dependent && waited && lane >= 0 && (run->warp->unwaited >> lane & 1) != 0;
    access->early = !waited || access->unsynced;
    return true;
}

void lines_touched(struct run *run, uint64_t address, uint64_t bytes, int lane, unsigned flags,
                   const struct epoch *epoch) {
    struct access access = {.allocation = allocation_of(run->launch->sim, run->worker, address, bytes)};
    if (bytes > 0 && prepare(&access, run, lane, flags, epoch)) {
        touch(&access, address, bytes);
    }
}

/* Every lane uses `bytes` behind those of the lane before.  False, with nothing done, if they are not in one
 * allocation, or a lane's bytes in two lines. */
static bool touch_row(struct access *access, struct run *run, uint64_t address, uint32_t bytes, unsigned flags,
                      const struct epoch *epoch) {
    access->allocation = allocation_of(run->launch->sim, run->worker, address, (uint64_t)LANES * bytes);
    if (access->allocation == NULL || ((address - access->allocation->base) & (bytes - 1)) != 0) {
        return false;
    }
    const uint64_t start = address - access->allocation->base, end = start + (uint64_t)LANES * bytes;
    if (!prepare(access, run, 0, flags, epoch)) {
        return true;
    }
    for (uint64_t at = start, next; at < end; at = next) {
        next = (at | (RECORD_BYTES - 1)) + 1;
        next = next < end ? next : end;
        uint64_t mask[RECORD_WORDS];
        set_mask(mask, at & (RECORD_BYTES - 1), (uint32_t)(next - at));
        access->lane = (int)((at - start) / bytes);
        access->lanes = (struct lane_pattern){(uint8_t)access->lane, at & (RECORD_BYTES - 1), (uint8_t)bytes};
        touch_line(access, at >> RECORD_SHIFT, mask);
    }
    return true;
}

void lines_touched_by_lanes(struct run *run, const uint64_t addresses[LANES], uint32_t mask, uint32_t bytes,
                            unsigned flags) {
    const struct epoch epoch = warp_epoch(run, mask);
    struct access access = {.allocation = NULL};
    uint64_t line = UINT64_MAX, masks[RECORD_WORDS];
    const uint32_t unwaited = run->launch->order.dependent ? run->warp->unwaited : 0;
    bool usable = false;
    if (unwaited == 0 && mask == ALL_LANES && IN_A_ROW(uint64_t, addresses, bytes) &&
        touch_row(&access, run, addresses[0], bytes, flags, &epoch)) {
        return;
    }
    access.allocation = NULL;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        uint64_t address = addresses[lane];
        if (access.allocation == NULL || address - access.allocation->base >= access.allocation->bytes ||
            unwaited != 0) {
            if (line != UINT64_MAX) {
                touch_line(&access, line, masks);
                line = UINT64_MAX;
            }
            access.allocation = allocation_of(run->launch->sim, run->worker, address, bytes);
            usable = prepare(&access, run, lane, flags, &epoch);
        }
        if (!usable) {
            access.allocation = NULL;
            continue;
        }
        uint64_t at = address - access.allocation->base, own[RECORD_WORDS];
        if ((at & (RECORD_BYTES - 1)) + bytes >
            RECORD_BYTES) { /* in an allocation that is not aligned itself */
            access.lanes.bytes = 0;
            touch(&access, address, bytes);
            continue;
        }
        set_mask(own, at & (RECORD_BYTES - 1), bytes);
        if (at >> RECORD_SHIFT != line) {
            if (line != UINT64_MAX) {
                touch_line(&access, line, masks);
            }
            line = at >> RECORD_SHIFT;
            access.lane = lane;
            access.lanes = (struct lane_pattern){(uint8_t)lane, at & (RECORD_BYTES - 1), (uint8_t)bytes};
            masks[0] = masks[1] = 0;
        }
        if ((at & (RECORD_BYTES - 1)) != access.lanes.first + (uint32_t)(lane - access.lanes.lane) * bytes) {
            access.lanes.bytes = 0;
        }
        masks[0] |= own[0];
        masks[1] |= own[1];
    }
    if (line != UINT64_MAX) {
        touch_line(&access, line, masks);
    }
}

void lines_copied(struct launch *launch, uint64_t address, uint64_t bytes, bool write) {
    struct worker worker = {.launch = launch};
    struct access access = {.launch = launch,
                            .allocation = allocation_of(launch->sim, &worker, address, bytes),
                            .view = &launch->order.start,
                            .lane = -1,
                            .write = write};
    if (access.allocation != NULL && access.allocation->lines != NULL && bytes > 0) {
        touch(&access, address, bytes);
    }
}

bool lines_written(const struct run *run, uint64_t address) {
    const struct allocation *allocation = allocation_of(run->launch->sim, run->worker, address, 1);
    return allocation != NULL && allocation->lines != NULL &&
           __atomic_load_n(
               &allocation->lines->line[(address - allocation->base) >> RECORD_SHIFT].last[1].launch,
               __ATOMIC_RELAXED) == run->launch->order.number;
}
