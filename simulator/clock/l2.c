/* L2's contents: which lines hit, which come from HBM, and when they are there. */
#include "timing.h"

#define WHOLE 3 /* both halves of a line */
/* Spreads rows of any pitch over all sets, like the chip's hash (2^64 divided by the golden ratio). */
#define SPREAD 0x9e3779b97f4a7c15

/* The line's entry, moved to the front of its set (least recently used last). */
static struct line *l2_line(struct timing *timing, uint64_t line, bool *hit) {
    uint64_t sets = timing->l2_lines / L2_WAYS;
    struct line *set = &timing->l2[(line * SPREAD >> 32) % sets * L2_WAYS];
    uint32_t at = 0;
    while (at < L2_WAYS - 1 && set[at].tag != line + 1) {
        at++;
    }
    *hit = set[at].tag == line + 1;
    struct line found = set[at];
    for (; at > 0; at--) {
        set[at] = set[at - 1];
    }
    set[0] = found;
    set[0].tag = line + 1;
    return &set[0];
}

uint64_t time_placed(struct timing *timing, uint64_t address) {
    if (address - timing->found.base >= timing->found.bytes) {
        const struct allocation *found = allocation_before(timing->sim, address);
        if (found == NULL) {
            return address;
        }
        timing->found = *found;
    }
    return address - timing->found.base + timing->found.place;
}

/* Returns when a line asked of HBM now is in L2, after earlier requests; with hbm_loaded_shared, HBM's load
 * delays also those who ask while it is on its way. */
static ticks arrival(const struct timing *timing) {
    const struct chip *chip = &timing->chip;
    ticks late = chip->hbm_loaded_shared > 0 ? time_loaded(timing, timing->now) : 0;
    ticks free = timing->hbm.server.free + rate_ticks(chip->hbm_rate, timing->far_bytes);
    return later(timing->now + late, free) + chip->hbm_latency - chip->l2_latency;
}

/* The halves of a line that a range covers, a bit each. */
static uint8_t halves(uint64_t line, uint64_t from, uint64_t to) {
    uint64_t middle = line * LINE_BYTES + HALF_LINE;
    return (uint8_t)((from < middle) | (to > middle) << 1);
}

/* Touches a range's part of a line; returns the bytes that come from HBM. */
static uint64_t touch_line(struct timing *timing, uint64_t line, uint64_t from, uint64_t to, bool store,
                           bool half, ticks *filled) {
    bool hit;
    struct line *place = l2_line(timing, line, &hit);
    uint8_t asked = half ? halves(line, from, to) : WHOLE;
    place->halves = hit ? place->halves : 0;
    bool whole = hit && (place->halves & asked) == asked;
    if (!whole) {
        timing->far_bytes += store ? 0 : half ? HALF_LINE : LINE_BYTES;
        /* later requests wait until it is there */
        place->filled = store ? 0 : arrival(timing);
    } else if (filled != NULL && !store) {
        *filled = later(*filled, place->filled);
        if (place->prefetched) {
            timing->ahead++;
            ticks takes = later(timing->chip.l2_prefetched, timing->chip.l2_latency);
            *filled = later(*filled, timing->now + takes - timing->chip.l2_latency);
        }
    }
    place->halves |= asked;
    place->prefetched = false;
    /* Without l2_shared_for nothing is shared: SMs are simulated in turn, so `now` may be before `asked`. */
    bool shares = timing->chip.l2_shared_for > 0;
    uint64_t pair = UINT64_C(1) << timing->toucher / SM_PAIR % 64;
    if (store) {
        place->asked = 0;
    } else if (shares && whole && timing->now < place->asked + timing->chip.l2_shared_for) {
        bool another = place->asker != timing->number;
        timing->shared += another ? to - from : 0;
        timing->given += another && (place->pairs & pair) == 0 ? to - from : 0;
        place->pairs |= pair;
    } else {
        place->asked = timing->now;
        place->asker = timing->number;
        place->pairs = pair;
    }
    return whole ? 0 : to - from;
}

static uint64_t touch(struct timing *timing, uint64_t address, uint64_t bytes, bool store, bool half,
                      ticks *filled) {
    uint64_t missed = 0, end = address + bytes;
    for (uint64_t line = address / LINE_BYTES; line * LINE_BYTES < end; line++) {
        uint64_t from = line * LINE_BYTES > address ? line * LINE_BYTES : address;
        uint64_t to = (line + 1) * LINE_BYTES < end ? (line + 1) * LINE_BYTES : end;
        missed += touch_line(timing, line, from, to, store, half, filled);
    }
    return missed;
}

/* HW (measured, H200: load_after_prefetch_cycles): a prefetch brings a line to L2, where its first load takes
 * longer than a load of a line that was loaded before. */
static uint64_t touch_ahead(struct timing *timing, uint64_t line) {
    bool hit;
    struct line *place = l2_line(timing, line, &hit);
    if (hit && place->halves == WHOLE) {
        return 0;
    }
    place->filled = arrival(timing);
    place->asked = 0;
    place->halves = WHOLE;
    place->prefetched = true;
    timing->far_bytes += LINE_BYTES;
    return LINE_BYTES;
}

uint64_t time_touch_ahead(struct timing *timing, uint64_t address, uint64_t bytes) {
    uint64_t missed = 0, from = time_placed(timing, address);
    for (uint64_t line = from / LINE_BYTES; line * LINE_BYTES < from + bytes; line++) {
        missed += touch_ahead(timing, line);
    }
    return missed;
}

uint64_t time_touch(struct timing *timing, uint64_t address, uint64_t bytes, bool store, ticks *filled) {
    return touch(timing, time_placed(timing, address), bytes, store, !store, filled);
}

/* HW (measured, H100: cold_box_cycles, row_part_cycles): a miss brings a whole block to L2, half a line by
 * default; with blocks of 256 bytes the other line arrives like a prefetched one. */
static uint64_t touch_placed(struct timing *timing, uint64_t from, uint64_t bytes, uint64_t block,
                             ticks *filled) {
    uint64_t end = from + bytes, least = block < LINE_BYTES ? block : LINE_BYTES;
    uint64_t missed = touch(timing, from, bytes, false, block < LINE_BYTES, filled);
    if (missed == 0) {
        return 0;
    }
    missed = (missed + least - 1) / least * least;
    if (block > LINE_BYTES) { /* the block's lines before and after the range */
        uint64_t first = from / LINE_BYTES, lines = block / LINE_BYTES;
        for (uint64_t line = first / lines * lines; line < first; line++) {
            missed += touch_ahead(timing, line);
        }
        for (uint64_t line = (end - 1) / LINE_BYTES + 1; line % lines != 0; line++) {
            missed += touch_ahead(timing, line);
        }
    }
    return missed;
}

uint64_t time_touch_sector(struct timing *timing, uint64_t place, enum touch how, uint64_t block,
                           ticks *filled) {
    return how == TOUCH_STORE   ? touch(timing, place, SECTOR, true, false, NULL)
           : how == TOUCH_AHEAD ? touch_ahead(timing, place / LINE_BYTES)
                                : touch_placed(timing, place, SECTOR, block, filled);
}

uint64_t time_touch_row(struct timing *timing, uint64_t address, uint64_t bytes, uint64_t block,
                        ticks *filled) {
    return touch_placed(timing, time_placed(timing, address), bytes, block, filled);
}

uint64_t time_fetched(const char *name) {
    return strstr(name, "L2::256B") != NULL   ? WIDEST_BLOCK
           : strstr(name, "L2::128B") != NULL ? LINE_BYTES
                                              : HALF_LINE;
}

ticks time_rows(const struct timing *timing, const uint64_t *lines, uint32_t count, bool far) {
    uint32_t rows = 0;
    for (uint32_t i = 0; i < count; i++) {
        bool apart = true;
        for (uint32_t j = 0; j < i && apart; j++) {
            apart = lines[i] > lines[j] + 1 || lines[j] > lines[i] + 1;
        }
        rows += apart;
    }
    return curve_at(far ? &timing->chip.rows_latency_hbm : &timing->chip.rows_latency_l2, rows);
}

void time_filled(struct timing *timing, uint64_t address, uint64_t bytes) {
    timing->found.bytes = 0; /* the allocation may be another one by now */
    uint64_t held = 2 * timing->l2_lines * LINE_BYTES, skipped = bytes > held ? bytes - held : 0;
    (void)time_touch(timing, address + skipped, bytes - skipped, true, NULL);
}
