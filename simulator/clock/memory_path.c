/* Memory path of an SM: L1, L2 port, L2, HBM. */
#include <stdlib.h>

#include "timing.h"

#define LINE_SECTORS (LINE_BYTES / SECTOR)

static bool l1_hit(struct sm_time *sm, uint64_t line) {
    uint64_t *tag = &sm->l1[line % sm->l1_lines];
    bool hit = *tag == line + 1;
    *tag = line + 1;
    return hit;
}

/* ---- requests ---- */

struct request *time_request(struct timing *timing) {
    if (!LIST_GROW(timing->requests, timing->nrequests, timing->requests_room)) {
        timing->no_memory = true;
        static struct request lost;
        return &lost;
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

/* Queueing delay behind earlier requests. */
static ticks queue(struct server *server, ticks at, uint64_t rate, uint64_t bytes) {
    return booked(server, at, rate_ticks(rate, bytes)) - at;
}

/* HW (published: cutlass_gemm_mainloop): the copy engine asks for a box's rows one by one, at most a line at a
 * time. Rows of 32 and 64 bytes take equally long, rows of 128 take the port's time. */
static ticks queue_port(struct server *port, const struct request *request, const struct timing *timing) {
    const struct chip *chip = &timing->chip;
    ticks bytes = rate_ticks(chip->sm_load_rate, request->bytes),
          rows = request->lines * chip->copy_row_interval;
    return booked(port, request->at, later(bytes, rows)) - request->at;
}

/* HW (measured, H100: first_stage_cycles, word_round_trip_cycles): a hit waits for a part of what all SMs have
 * asked of HBM. */
static ticks behind_others_misses(const struct timing *timing, const struct request *request, ticks part) {
    ticks all = timing->hbm.server.free;
    return all > request->at ? (all - request->at) * part / TICKS : 0;
}

/* HW (measured, H200: h200_observed fence_rounds): a store that has left its SM waits for parts of the loads at
 * L2 and HBM. */
static ticks behind_others_loads(const struct timing *timing, const struct request *request) {
    const struct chip *chip = &timing->chip;
    ticks near = timing->l2_loads_until > request->at ? timing->l2_loads_until - request->at : 0;
    ticks far = behind_others_misses(timing, request, chip->l2_store_behind_misses);
    return later(near * chip->l2_store_behind / TICKS, far);
}

/* HW (measured, H100: the same): a hit in L2 waits behind its SM's earlier misses, a copy for all of their time
 * and a warp's load for a part; and for that part of other SMs' misses. */
static ticks behind_misses(const struct timing *timing, const struct request *request) {
    const struct chip *chip = &timing->chip;
    ticks own = timing->sm[request->sm].far_until;
    own = own > request->at ? own - request->at : 0;
    own = request->asker != ASKED_BY_WARP ? own : own * chip->l2_behind_own / TICKS;
    return later(own, behind_others_misses(timing, request, chip->l2_behind_misses));
}

/* HW (measured, H200: first_stage_cycles, b and six stages): a box or bulk copy that hits in L2 does not arrive
 * before its SM's earlier copies that wait for HBM or for lines on their way.  A warp's cp.async does not wait
 * like that (h200_observed call_starts, orders). */
static ticks behind_answers(struct timing *timing, const struct request *request, ticks done) {
    ticks *answered = &timing->sm[request->sm].far_answered;
    if (request->missed == 0 && request->asker != ASKED_BY_WARP && timing->chip.l2_behind_own > 0) {
        done = later(done, *answered);
    }
    *answered = later(*answered, done);
    return done;
}

/* HW (measured, H200: fenced_stores_cycles, h200_observed fence_rounds): stores take L2's time from loads, and
 * L2 takes stores more slowly while it serves loads.  Without l2_store_beside, stores wait behind all loads
 * asked for. */
static ticks store_to_l2(struct timing *timing, ticks at, uint64_t bytes) {
    const struct chip *chip = &timing->chip;
    ticks length = time_outside(timing, rate_ticks(chip->l2_store_rate, bytes)), alone = length;
    if (chip->l2_store_beside > 0 && timing->l2_loads_until > at) {
        length = length * chip->l2_store_beside / TICKS;
    }
    ticks end = time_shared(timing, &timing->l2_store, at, length);
    ticks behind = time_shared(timing, &timing->l2_load, at, alone);
    return (chip->l2_store_beside > 0 ? end : later(end, behind)) - length - at;
}

ticks time_stores_taken(const struct sm_time *sm, ticks at) {
    ticks done = 0;
    for (uint32_t i = 0; i < STORE_WINDOWS; i++) {
        done = sm->taken[i].window <= at / WINDOW ? later(done, sm->taken[i].done) : done;
    }
    return done;
}

static void note_taken(struct sm_time *sm, ticks at, ticks done) {
    struct stores_taken *of = &sm->taken[at / WINDOW % STORE_WINDOWS];
    *of = (struct stores_taken){at / WINDOW, of->window == at / WINDOW ? later(of->done, done) : done};
}

static ticks served(struct timing *timing, const struct request *request) {
    const struct chip *chip = &timing->chip;
    struct sm_time *sm = &timing->sm[request->sm];
    enum sim_step longest = SIM_STEP_PORT;
    ticks wait, near = request->near, far = request->far;
    if (request->store) { /* HW (measured, H200: h200_observed fences, lines_read_before): it also waits behind
                             others' misses */
        wait = queue(&sm->store_port, request->at, chip->sm_store_rate, request->bytes);
        uint64_t bytes = request->in_l2 > 0 ? request->in_l2 : request->bytes;
        near = store_to_l2(timing, request->at, bytes);
        far = wait + behind_others_loads(timing, request);
        if (request->missed > 0) {
            far = later(far, time_queued(timing, &timing->hbm, request->at, chip->hbm_rate, request->missed));
        }
    } else {
        wait = queue_port(&sm->load_port, request, timing);
        for (uint8_t i = 0; i < request->nothers; i++) {
            struct sm_time *other = &timing->sm[request->other[i]];
            wait = later(wait, queue_port(&other->load_port, request, timing));
        }
        if (request->missed > 0) {
            sm->far_until = later(sm->far_until, request->at + far);
            far = later(far, time_outside(timing, timing->hbm_late));
        } else if (chip->l2_behind_own > 0) {
            far = behind_misses(timing, request);
        }
    }
    ticks port = wait;
    if (near > wait) {
        longest = SIM_STEP_L2;
        wait = near;
    }
    if (far > wait) {
        longest = SIM_STEP_HBM;
        wait = far;
    }
    if (request->path != NULL) {
        path_queued(request->path, longest, wait);
    }
    if (request->store) {
        note_taken(sm, request->at, request->at + wait);
        if (request->parts) {
            sm->parts_seen = later(sm->parts_seen, request->at + wait + chip->store_part_seen);
        }
        return request->at + wait + request->unloaded;
    }
    ticks done = request->at + wait + time_outside(timing, request->unloaded);
    if (request->op != NULL) {
        done = behind_answers(timing, request, done);
        /* A copy that waits for HBM has left the SM; with fence_gpu_asks also one that waits for L2. */
        ticks queued = chip->fence_gpu_asks > 0 ? port : later(port, near);
        sm->completions[sm->ncompletions++ % COMPLETIONS] = (struct completion){request->at + queued, done};
    }
    return done;
}

/* The registers of a warp's load have their values at `done`. */
static void loaded(const struct warp *warp, uint32_t row_base, const struct insn *insn, ticks done) {
    for (uint32_t i = 0; i < insn->ndst; i++) {
        if (insn->op[i].base == BASE_REGS) {
            struct value *value = &warp->time->values[row_base + insn->op[i].off / ROW32];
            value->ready = done;
            value->from = insn;
        }
    }
}

void time_settle(struct timing *timing) {
    if (timing->nrequests > 0) {
        qsort(timing->requests, timing->nrequests, sizeof *timing->requests, by_time);
        timing->hbm_late = time_loaded(timing, timing->requests[0].at);
        time_turns(timing);
    }
    for (uint32_t i = 0; i < timing->nrequests; i++) {
        const struct request *request = &timing->requests[i];
        ticks done = served(timing, request);
        if (request->op != NULL) {
            event_add_stage(timing, request->op, request->cta, done, request->stage);
            if (request->after != 0) {
                event_add_stage(timing, request->op, request->cta, done + request->after, request->last_stage);
            }
        }
        if (request->insn != NULL && !request->store) {
            loaded(request->warp, request->row_base, request->insn, done);
        }
    }
    timing->nrequests = 0;
    timing->far_bytes = 0;
}

/* ---- global memory of an instruction ---- */

struct covered { /* the written bytes of each sector of a line, a bit each */
    uint32_t bytes[LINE_SECTORS];
};

/* HW (measured, H200: scattered_store_cycles): in a warp's store each line costs `line` bytes by itself, and a
 * sector that is written partly costs more than a whole one.  Whole lines cost their bytes. */
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

static bool writes_parts(uint32_t lines, const struct covered *covered) {
    for (uint32_t i = 0; i < lines * LINE_SECTORS; i++) {
        uint32_t written = covered[i / LINE_SECTORS].bytes[i % LINE_SECTORS];
        if (written != 0 && written != UINT32_MAX) {
            return true;
        }
    }
    return false;
}

void time_global(struct run *run, const struct insn *insn) {
    struct timing *timing = run->launch->timing;
    const struct chip *chip = &timing->chip;
    const struct footprint *footprint = &timing->footprint;
    struct sm_time *sm = &timing->sm[run->cta->sm];
    uint64_t last = UINT64_MAX, missed = 0, bytes = 0, in_l2 = 0;
    uint8_t sectors[LANES] = {0}; /* touched sectors of each line in `seen`, a bit each */
    ticks filled = 0;
    bool cached = strstr(insn->name, ".cg") == NULL && strstr(insn->name, ".volatile") == NULL &&
                  strstr(insn->name, ".relaxed") == NULL && strstr(insn->name, ".acquire") == NULL &&
                  insn->ndst > 0 && strncmp(insn->name, "ld", 2) == 0;
    bool ahead = insn->timing == FAMILY_PREFETCH;
    uint64_t block = time_fetched(insn->name);
    bool store = strncmp(insn->name, "st", 2) == 0 || strncmp(insn->name, "red", 3) == 0;
    const enum touch how = store ? TOUCH_STORE : ahead ? TOUCH_AHEAD : TOUCH_LOAD;
    uint64_t seen[LANES];
    struct covered covered[LANES] = {{{0}}}; /* stored bytes of each line in `seen` */
    uint32_t count = 0, lines = 0;
    timing->toucher = run->cta->sm;
    FOR_LANES(rest, footprint->mask) { /* each sector once, however many lanes touch it */
        uint64_t address = time_placed(timing, footprint->address[LANE(rest)]);
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
            missed += time_touch_sector(timing, at * SECTOR, how, block, &filled);
        }
    }
    /* HW (measured, H200: h200_observed scattered_loads): an SM processes a warp's load line by line. */
    ticks turn =
        store || ahead ? timing->issued : booked(&sm->load_lines, timing->issued, count * chip->load_line);
    if (lines == 0) { /* all in L1 */
        loaded(run->warp, run->launch->reg_base[run->split->function->index] / ROW32, insn,
               turn + chip->l1_latency);
        return;
    }
    if (store && chip->store_line_bytes > 0) {
        in_l2 = stored_bytes(chip, chip->l2_store_line_bytes, count, covered);
        bytes = stored_bytes(chip, chip->store_line_bytes, count, covered);
    }
    sm->touched++;
    if (store) {
        sm->stores_out = later(sm->stores_out, timing->issued) + rate_ticks(chip->sm_store_rate, bytes);
    }
    struct request *request = time_request(timing);
    request->at = turn;
    request->sm = run->cta->sm;
    request->bytes = ahead ? 0 : bytes; /* a prefetch does not use the SM's port */
    request->missed = missed;
    request->store = store;
    request->parts = store && chip->store_part_seen > 0 && writes_parts(count, covered);
    request->in_l2 = in_l2;
    request->asker = ASKED_BY_WARP;
    request->by_block = block == WIDEST_BLOCK;
    request->unloaded = missed > 0 ? chip->hbm_latency : chip->l2_latency;
    ticks rows = store || count < 2 ? 0 : time_rows(timing, seen, count, missed > 0);
    if (filled > timing->issued) {
        request->unloaded = later(request->unloaded, filled - timing->issued + chip->l2_latency);
    }
    request->unloaded += rows;
    if (!store && insn->ndst > 0) {
        request->warp = run->warp;
        request->insn = insn;
        request->row_base = run->launch->reg_base[run->split->function->index] / ROW32;
        loaded(run->warp, request->row_base, insn, NEVER);
    }
}

/* ---- cp.async ---- */

/* HW (measured, H100 and H200: async_ring_lap_cycles): a warp's cp.async takes a turn for each line, without
 * delaying reads of shared memory; a copy through L1 (.ca) takes longer and blocks shared memory.  The warp
 * continues as soon as its copy fits into the queue. */
ticks time_async_copy(struct run *run, const struct insn *insn, const uint64_t *from, uint32_t mask) {
    struct timing *timing = run->launch->timing;
    const struct chip *chip = &timing->chip;
    struct sm_time *sm = &timing->sm[run->cta->sm];
    struct warp_time *time = run->warp->time;
    uint64_t seen[LANES];
    uint32_t lines = 0;
    FOR_LANES(rest, mask) {
        uint64_t line = time_placed(timing, from[LANE(rest)]) / LINE_BYTES;
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
