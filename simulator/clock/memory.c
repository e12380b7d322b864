/* The way of bytes between an SM and memory: its L1, its port, L2, HBM. */
#include <stdlib.h>

#include "timing.h"

#define L2_WAYS      16
#define SECTOR       32 /* HW: bytes that L2 gives at a time */
#define LINE_SECTORS (LINE_BYTES / SECTOR)

/* ---- what is where ---- */

/* The line's place in L2: a set of ways, the last used first. */
static struct line *l2_line(struct timing *timing, uint64_t line, bool *hit) {
    uint64_t sets = timing->l2_lines / L2_WAYS;
    struct line *set = &timing->l2[line % sets * L2_WAYS];
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

/* An address as the caches see it: the same in every run. */
static uint64_t placed(struct timing *timing, uint64_t address) {
    if (address - timing->found.base >= timing->found.bytes) {
        const struct allocation *found = allocation_before(timing->sim, address);
        if (found == NULL) {
            return address;
        }
        timing->found = *found;
    }
    return address - timing->found.base + timing->found.place;
}

/* When a line that is asked of HBM now is in L2: under load as late for those who ask for it on its way. */
static ticks arrival(const struct timing *timing) {
    const struct chip *chip = &timing->chip;
    ticks late = chip->hbm_loaded_shared > 0 ? time_loaded(timing, timing->now) : 0;
    return timing->now + chip->hbm_latency - chip->l2_latency + late;
}

static uint64_t touch(struct timing *timing, uint64_t address, uint64_t bytes, bool store, ticks *filled) {
    uint64_t missed = 0, end = address + bytes;
    for (uint64_t line = address / LINE_BYTES; line * LINE_BYTES < end; line++) {
        bool hit;
        uint64_t from = line * LINE_BYTES > address ? line * LINE_BYTES : address;
        uint64_t to = (line + 1) * LINE_BYTES < end ? (line + 1) * LINE_BYTES : end;
        struct line *place = l2_line(timing, line, &hit);
        if (!hit) {
            missed += to - from;
            /* Who asks for it next has to wait until it is there. */
            place->filled = store ? 0 : arrival(timing);
        } else if (filled != NULL && !store) {
            *filled = later(*filled, place->filled);
            if (place->prefetched) {
                *filled = later(*filled, timing->now + timing->chip.l2_prefetched - timing->chip.l2_latency);
            }
        }
        place->prefetched = false;
        /* A chip's file that says nothing of sharing has none: SMs come by turns, so that `now` may be before
         * `asked`. */
        bool shares = timing->chip.l2_shared_for > 0;
        if (store) {
            place->asked = 0;
        } else if (shares && hit && timing->now < place->asked + timing->chip.l2_shared_for) {
            timing->shared += place->asker != timing->number ? to - from : 0;
        } else {
            place->asked = timing->now;
            place->asker = timing->number;
        }
    }
    return missed;
}

/* HW (measured, H200: load_after_prefetch_cycles): a prefetch brings a line no nearer than to L2, and the first
 * load of it there takes longer than those of a line that has been loaded. */
static uint64_t touch_ahead(struct timing *timing, uint64_t line) {
    bool hit;
    struct line *place = l2_line(timing, line, &hit);
    if (hit) {
        return 0;
    }
    place->filled = arrival(timing);
    place->asked = 0;
    place->prefetched = true;
    return LINE_BYTES;
}

uint64_t time_touch(struct timing *timing, uint64_t address, uint64_t bytes, bool store, ticks *filled) {
    return touch(timing, placed(timing, address), bytes, store, filled);
}

void time_filled(struct timing *timing, uint64_t address, uint64_t bytes) {
    timing->found.bytes = 0; /* allocations come and go between launches */
    uint64_t held = 2 * timing->l2_lines * LINE_BYTES, skipped = bytes > held ? bytes - held : 0;
    (void)time_touch(timing, address + skipped, bytes - skipped, true, NULL);
}

static bool l1_hit(struct sm_time *sm, uint64_t line) {
    uint64_t *tag = &sm->l1[line % sm->l1_lines];
    bool hit = *tag == line + 1;
    *tag = line + 1;
    return hit;
}

/* ---- requests ---- */

struct request *time_request(struct timing *timing) {
    if (timing->nrequests == timing->requests_room) {
        uint32_t room = timing->requests_room == 0 ? 1024 : 2 * timing->requests_room;
        struct request *grown = realloc(timing->requests, room * sizeof *grown);
        if (grown == NULL) {
            timing->no_memory = true;
            static struct request lost;
            return &lost;
        }
        timing->requests = grown;
        timing->requests_room = room;
    }
    struct request *request = &timing->requests[timing->nrequests++];
    *request = (struct request){.number = timing->number++};
    return request;
}

static int by_time(const void *x, const void *y) {
    const struct request *a = x, *b = y;
    if (a->at != b->at) {
        return a->at < b->at ? -1 : 1;
    }
    if (a->sm != b->sm) {
        return a->sm < b->sm ? -1 : 1;
    }
    return a->number < b->number ? -1 : a->number > b->number;
}

/* How long a request waits for those before it. */
static ticks queue(struct server *server, ticks at, uint64_t rate, uint64_t bytes) {
    return booked(server, at, rate_ticks(rate, bytes)) - at;
}

/* HW: L2 and HBM have clocks of their own, which stay when that of the SMs falls. */
static ticks outside(const struct timing *timing, ticks length) {
    return length * time_clock(timing) / timing->chip.sm_clock;
}

/* HW (published: cutlass_gemm_mainloop): the copy engine asks for a box's rows one after another, at most a
 * line at a time and whatever they hold: rows of 32 and of 64 bytes take as long as each other, those of 128
 * the port's time. */
static ticks queue_port(struct server *port, const struct request *request, const struct chip *chip) {
    ticks bytes = rate_ticks(chip->sm_load_rate, request->bytes),
          rows = request->lines * chip->copy_row_interval;
    return booked(port, request->at, later(bytes, rows)) - request->at;
}

static ticks queue_common(const struct timing *timing, struct common *common, ticks at, uint64_t rate,
                          uint64_t bytes) {
    ticks length = outside(timing, rate_ticks(rate, bytes));
    return time_common(timing, common, at, length) - length - at;
}

/* HW (measured, first_stage_cycles, word_round_trip_cycles): what L2 has comes no sooner than what others have
 * asked of HBM before, on SMs that ask nothing of it as well. */
static ticks in_order(struct timing *timing, const struct request *request, ticks done) {
    if (request->missed > 0) {
        timing->last_missed = later(timing->last_missed, done);
        return done;
    }
    return later(done, timing->last_missed);
}

static ticks served(struct timing *timing, const struct request *request) {
    const struct chip *chip = &timing->chip;
    const uint64_t from_l2[] = {chip->l2_load_rate, chip->l2_box_rate, chip->l2_warp_rate};
    const uint64_t from_hbm[] = {chip->hbm_rate, chip->hbm_box_rate, chip->hbm_warp_rate};
    struct sm_time *sm = &timing->sm[request->sm];
    enum sim_step longest = SIM_STEP_PORT;
    ticks wait, near;
    if (request->store) {
        wait = queue(&sm->store_port, request->at, chip->sm_store_rate, request->bytes);
        uint64_t bytes = request->in_l2 > 0 ? request->in_l2 : request->bytes;
        near = queue_common(timing, timing->l2_store, request->at, chip->l2_store_rate, bytes);
    } else {
        wait = queue_port(&sm->load_port, request, chip);
        for (uint8_t i = 0; i < request->nothers; i++) {
            struct sm_time *other = &timing->sm[request->other[i]];
            wait = later(wait, queue_port(&other->load_port, request, chip));
        }
        near = queue_common(timing, timing->l2_load, request->at, from_l2[request->asker],
                            request->bytes - request->shared + request->more);
    }
    if (near > wait) {
        longest = SIM_STEP_L2;
        wait = near;
    }
    ticks passed = wait;
    ticks far = request->missed > 0
                    ? queue_common(timing, timing->hbm, request->at, from_hbm[request->asker], request->missed)
                    : 0;
    if (far > wait) {
        longest = SIM_STEP_HBM;
        wait = far;
    }
    if (request->path != NULL) {
        path_queued(request->path, longest, wait);
    }
    if (request->store) {
        return request->at + wait + request->unloaded;
    }
    ticks done =
        request->at + wait + outside(timing, request->unloaded + (request->missed > 0 ? timing->hbm_late : 0));
    if (chip->l2_in_order != 0) {
        done = in_order(timing, request, done);
    }
    if (request->op != NULL) {
        ticks queued = longest == SIM_STEP_HBM ? passed : wait; /* what waits for HBM has left the SM */
        sm->completions[sm->ncompletions++ % COMPLETIONS] = (struct completion){request->at + queued, done};
    }
    return done;
}

void time_settle(struct timing *timing) {
    qsort(timing->requests, timing->nrequests, sizeof *timing->requests, by_time);
    if (timing->nrequests > 0) {
        timing->hbm_late = time_loaded(timing, timing->requests[0].at);
    }
    for (uint32_t i = 0; i < timing->nrequests; i++) {
        const struct request *request = &timing->requests[i];
        ticks done = served(timing, request);
        if (request->op != NULL) {
            time_operation(timing, request->op, request->cta, done, request->stage);
            if (request->after != 0) {
                time_operation(timing, request->op, request->cta, done + request->after, request->last_stage);
            }
        }
        for (uint32_t j = 0; request->insn != NULL && !request->store && j < request->insn->ndst; j++) {
            struct operand operand = request->insn->op[j];
            if (operand.base == BASE_REGS) {
                request->warp->time->ready[request->row_base + operand.off / ROW32] = done;
                request->warp->time->loads_until = later(request->warp->time->loads_until, done);
            }
        }
    }
    timing->nrequests = 0;
}

/* ---- global memory of an instruction ---- */

struct covered { /* of each sector of a line: its bytes, a bit each */
    uint32_t bytes[LINE_SECTORS];
};

/* HW (measured, H200: scattered_store_cycles): of a warp's store each line takes something of its own, `line`,
 * as bytes, and a sector that is written in part more than a whole one.  Whole lines take what their bytes
 * take. */
static uint64_t stored_bytes(const struct chip *chip, uint64_t line, uint32_t lines,
                             const struct covered *covered) {
    uint64_t whole = (LINE_BYTES - line) / LINE_SECTORS, bytes = lines * line;
    for (uint32_t i = 0; i < lines; i++) {
        for (int sector = 0; sector < LINE_SECTORS; sector++) {
            uint32_t written = covered[i].bytes[sector];
            bytes += written == UINT32_MAX ? whole : written != 0 ? chip->store_part_bytes : 0;
        }
    }
    return bytes;
}

void time_global(struct run *run, const struct insn *insn) {
    struct timing *timing = run->launch->timing;
    const struct chip *chip = &timing->chip;
    const struct footprint *footprint = &timing->footprint;
    struct sm_time *sm = &timing->sm[run->cta->sm];
    uint64_t last = UINT64_MAX, missed = 0, bytes = 0, in_l2 = 0;
    uint8_t sectors[LANES] = {0}; /* of the lines seen, a bit each */
    ticks filled = 0;
    bool cached = strstr(insn->name, ".cg") == NULL && strstr(insn->name, ".volatile") == NULL &&
                  strstr(insn->name, ".relaxed") == NULL && strstr(insn->name, ".acquire") == NULL &&
                  insn->ndst > 0 && strncmp(insn->name, "ld", 2) == 0;
    bool ahead = insn->timing == FAMILY_PREFETCH;
    bool store = strncmp(insn->name, "st", 2) == 0 || strncmp(insn->name, "red", 3) == 0;
    uint64_t seen[LANES];
    struct covered covered[LANES] = {{{0}}}; /* of the lines seen */
    uint32_t count = 0, lines = 0;
    FOR_LANES(rest, footprint->mask) { /* each sector once, whichever lanes it is of */
        uint64_t address = placed(timing, footprint->address[LANE(rest)]);
        for (uint64_t at = address / SECTOR; at * SECTOR < address + footprint->bytes; at++) {
            uint64_t line = at * SECTOR / LINE_BYTES;
            uint32_t i = 0;
            uint8_t sector = (uint8_t)(1u << at % LINE_SECTORS);
            while (i < count && seen[i] != line) {
                i++;
            }
            uint64_t from = later(address, at * SECTOR), to = (at + 1) * SECTOR;
            to = to < address + footprint->bytes ? to : address + footprint->bytes;
            if (i < LANES) {
                covered[i].bytes[at % LINE_SECTORS] |= UINT32_MAX >> (SECTOR - (to - from)) << from % SECTOR;
            }
            if (at == last) {
                continue;
            }
            last = at;
            if (i < count && (sectors[i] & sector) != 0) {
                continue;
            }
            if (i < LANES) {
                sectors[i] |= sector;
            }
            if (i == count && count < LANES) {
                seen[count++] = line;
                if (cached && l1_hit(sm, line)) {
                    continue;
                }
                lines++;
            }
            bytes += SECTOR;
            /* A load brings the whole line from memory, whose other sectors are found there then. */
            uint64_t far =
                ahead ? touch_ahead(timing, line) : touch(timing, at * SECTOR, SECTOR, store, &filled);
            missed += far > 0 && !store ? LINE_BYTES : far;
        }
    }
    (void)sm->l1_lines;
    if (lines == 0) { /* all of it in L1 */
        for (uint32_t i = 0; i < insn->ndst; i++) {
            if (insn->op[i].base == BASE_REGS) {
                run->warp->time->ready[run->launch->reg_base[run->split->function->index] / ROW32 +
                                       insn->op[i].off / ROW32] = timing->issued + chip->l1_latency;
            }
        }
        return;
    }
    if (store && chip->store_line_bytes > 0) {
        in_l2 = stored_bytes(chip, chip->l2_store_line_bytes, count, covered);
        bytes = stored_bytes(chip, chip->store_line_bytes, count, covered);
    }
    if (store) {
        sm->stores_out = later(sm->stores_out, timing->issued) + rate_ticks(chip->sm_store_rate, bytes);
    }
    struct request *request = time_request(timing);
    request->at = timing->issued;
    request->sm = run->cta->sm;
    request->bytes = ahead ? 0 : bytes; /* what stays in L2 takes nothing of the SM's port */
    request->missed = missed;
    request->store = store;
    request->in_l2 = in_l2;
    request->asker = ASKED_BY_WARP;
    request->unloaded = missed > 0 ? chip->hbm_latency : chip->l2_latency;
    if (filled > timing->issued) {
        request->unloaded = later(request->unloaded, filled - timing->issued + chip->l2_latency);
    }
    if (!store && insn->ndst > 0) {
        request->warp = run->warp;
        request->insn = insn;
        request->row_base = run->launch->reg_base[run->split->function->index] / ROW32;
        for (uint32_t i = 0; i < insn->ndst; i++) {
            if (insn->op[i].base == BASE_REGS) {
                run->warp->time->ready[request->row_base + insn->op[i].off / ROW32] = NEVER;
            }
        }
    }
}

/* ---- cp.async ---- */

/* HW (measured, H100 and H200: async_ring_lap_cycles): the lines that a warp's cp.async touches take a turn
 * each, beside what shared memory reads meanwhile; a copy through L1 takes more, and nothing of shared memory
 * passes it. The warp goes on when its copy is among those that the way takes ahead. */
ticks time_async_copy(struct run *run, const struct insn *insn, const uint64_t *from, uint32_t mask) {
    struct timing *timing = run->launch->timing;
    const struct chip *chip = &timing->chip;
    struct sm_time *sm = &timing->sm[run->cta->sm];
    struct warp_time *time = run->warp->time;
    uint64_t seen[LANES];
    uint32_t lines = 0;
    FOR_LANES(rest, mask) {
        uint64_t line = placed(timing, from[LANE(rest)]) / LINE_BYTES;
        uint32_t i = 0;
        while (i < lines && seen[i] != line) {
            i++;
        }
        lines = i == lines ? lines + 1 : lines;
        seen[i] = line;
    }
    bool cached = strstr(insn->name, ".ca") != NULL;
    ticks length = lines * chip->async_copy_line + (cached ? chip->async_copy_cached : 0);
    ticks from_then = cached && length > 0 ? later(timing->issued, sm->shared.free) : timing->issued;
    ticks end = booked(&sm->async_copies, from_then, length) + length;
    if (cached && length > 0) {
        sm->shared.free = later(sm->shared.free, end);
    }
    time->next = later(time->next, end > chip->memory_queue ? end - chip->memory_queue : 0);
    return later(end - (length > 0 ? chip->async_copy_line : 0), timing->issued);
}
