/* Simulated time of copies: what they request from memory, how much of it L2 holds, and when they are done. */
#include "clock/timing.h"

#include "bulk.h"

/* HW (measured, H100: cold_box_cycles): granularity in which L2 fetches a row from memory, by the map's
 * promotion: none, 64, 128 and 256 bytes (cuda.h, CUtensorMapL2promotion). */
static const uint64_t promoted_bytes[] = {64, 64, 128, 256};

/* Touches a box's rows in the L2 model and fills in the request. Returns the number of rows from HBM that do
 * not directly follow the row before. */
static uint32_t touch_box(struct timing *timing, const struct tensor_box *box, bool store,
                          struct request *request, ticks *filled) {
    uint64_t end = 0;
    uint32_t apart = 0;
    bool past = false;
    timing->shared = timing->given = timing->ahead = 0;
    for (uint32_t i = 0; i < box->rows; i++) {
        const struct box_row row = tensor_box_row(box, i);
        if (row.bytes > 0) {
            uint64_t missed = store ? time_touch(timing, row.address, row.bytes, true, NULL)
                                    : time_touch_row(timing, row.address, row.bytes,
                                                     promoted_bytes[box->map.l2_promotion], filled);
            request->missed += missed;
            apart += missed > 0 && row.address != end;
            end = row.address + row.bytes;
        } else {
            past = true;
        }
    }
    /* HW (measured, H200: cold_box_cycles, columns 2 and 6): when several lines were prefetched into L2 along
     * with others, the last of them arrives later than a single one would. */
    if (filled != NULL && timing->ahead > 1) {
        *filled += timing->chip.l2_prefetched_rows;
    }
    /* HW (measured, H200: box_shared_ns): SMs that request the same rows at the same time cost L2 one request,
     * unless some of the rows lie past the tensor's end. */
    request->shared = past ? 0 : timing->shared;
    request->given = past ? 0 : timing->given;
    return apart;
}

struct request *copy_request(struct run *run, struct async_op *op, ticks at) {
    struct request *request = time_request(run->launch->timing);
    request->at = at;
    request->sm = run->cta->sm;
    request->op = op;
    request->path = op->path;
    request->cta = run->cta;
    request->stage = ASYNC_DONE;
    return request;
}

static struct request *asked(struct run *run, struct async_op *op, ticks at, uint64_t bytes, bool store) {
    struct request *request = copy_request(run, op, at);
    run->launch->timing->toucher = run->cta->sm;
    request->bytes = bytes;
    request->store = store;
    return request;
}

/* HW: multicast data leaves L2 once per TPC, a pair of SMs (measured, H200: cluster_ring_cycles, multicast).
 * Returns the number of TPCs. */
static uint32_t pairs_of(const struct request *request) {
    uint32_t pairs = 1;
    for (uint32_t i = 0; i < request->nothers; i++) {
        bool another = request->other[i] / SM_PAIR != request->sm / SM_PAIR;
        for (uint32_t j = 0; j < i; j++) {
            another = another && request->other[i] / SM_PAIR != request->other[j] / SM_PAIR;
        }
        pairs += another;
    }
    return pairs;
}

/* Latency of a copy by its size, less the part that machine code already accounts for at issue and wait. */
static ticks latency(const struct chip *chip, const struct curve *curve, uint64_t bytes) {
    ticks takes = curve_at(curve, bytes);
    return takes > chip->copy_latency_less ? takes - chip->copy_latency_less : 0;
}

/* HW (measured, H200: cold_box_cycles): scattered rows from HBM take as long as a warp's loads of them. */
static ticks far_latency(const struct chip *chip, uint64_t bytes, uint32_t apart) {
    ticks together = latency(chip, &chip->copy_latency_hbm, bytes);
    ticks rows = apart > 1 ? curve_at(&chip->rows_latency_hbm, apart) : 0;
    return later(together, rows > 0 ? latency(chip, &chip->copy_latency_hbm, HALF_LINE) + rows : 0);
}

void load_timed(struct run *run, struct async_op *op) {
    const struct load *load = op->payload;
    struct timing *timing = run->launch->timing;
    ticks start = time_copy_start(run, load->from_cta == NULL), filled = 0;
    uint32_t apart = 0;
    if (load->from_cta != NULL) {
        event_add_stage(timing, op, op->cta, time_remote(run, load->bytes), ASYNC_DONE);
        return;
    }
    if (load->answer) { /* not measured; assumed as a copy of as many bytes from L2 */
        ticks takes = latency(&timing->chip, &timing->chip.copy_latency_l2, load->bytes);
        event_add_stage(timing, op, op->cta, start + takes, ASYNC_DONE);
        return;
    }
    struct request *request = asked(run, op, start, load->bytes, false);
    for (uint32_t i = 0; i < load->destinations;
         i++) { /* one request to L2, but every SM's port carries the bytes */
        if (load->destination[i].cta->sm != request->sm && request->nothers < MAX_CLUSTER) {
            request->other[request->nothers++] = (uint16_t)load->destination[i].cta->sm;
        }
    }
    if (load->tensor) {
        request->asker = ASKED_BY_BOX;
        uint32_t lines = (uint32_t)(load->bytes / load->box.rows + LINE_BYTES - 1) / LINE_BYTES;
        request->lines = load->box.rows * lines;
        apart = touch_box(timing, &load->box, false, request, &filled);
    } else {
        request->missed = time_touch(timing, load->from, load->bytes, false, &filled);
    }
    request->given += load->bytes * (pairs_of(request) - 1);
    ticks near = latency(&timing->chip, &timing->chip.copy_latency_l2, load->bytes);
    uint64_t own = request->missed < load->bytes ? request->missed : load->bytes;
    ticks far = own > 0 ? far_latency(&timing->chip, own, apart) : 0;
    ticks others = filled > start ? filled - start + near : 0;
    request->unloaded = near > far ? near : far;
    request->unloaded = others > request->unloaded ? others : request->unloaded;
}

/* The source counts as read when the SM's port has taken it, and the store is done when memory has it. */
void store_timed(struct run *run, struct async_op *op) {
    const struct store *store = op->payload;
    struct timing *timing = run->launch->timing;
    ticks start = time_copy_start(run, true);
    struct request *request = asked(run, op, start, store->bytes, true);
    if (store->tensor) {
        (void)touch_box(timing, &store->box, true, request, NULL);
    } else {
        request->missed = time_touch(timing, store->to, store->bytes, true, NULL);
    }
    request->stage = ASYNC_READ;
    request->unloaded = time_engine_read(run, start, store->bytes) - start;
    request->after = timing->chip.copy_store_latency;
    request->last_stage = ASYNC_DONE;
}

/* ---- prefetches ---- */

static void ask_ahead(struct run *run, ticks at, uint64_t missed, enum asker asker) {
    struct request *request = time_request(run->launch->timing);
    request->at = at;
    request->sm = run->cta->sm;
    request->missed = missed;
    request->asker = asker;
    request->unloaded = run->launch->timing->chip.hbm_latency;
}

void prefetch_timed(struct run *run, uint64_t from, uint64_t bytes) {
    ticks at = run->launch->timing->issued;
    uint64_t missed = time_touch_ahead(run->launch->timing, from, bytes);
    if (missed > 0) {
        ask_ahead(run, at, missed, ASKED_BY_BLOCK);
    }
}

void prefetch_box_timed(struct run *run, const struct tensor_box *box) {
    ticks at = run->launch->timing->issued;
    uint64_t missed = 0;
    for (uint32_t i = 0; i < box->rows; i++) {
        const struct box_row row = tensor_box_row(box, i);
        if (row.bytes > 0) {
            missed += time_touch_ahead(run->launch->timing, row.address, row.bytes);
        }
    }
    if (missed > 0) {
        ask_ahead(run, at, missed, ASKED_BY_BOX);
    }
}
