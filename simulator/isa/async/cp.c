/* cp.async (non-bulk, per-thread copies), st.async and red.async; also decides which decoder reads a cp. */
#include "async/bulk.h"
#include "async/groups.h"
#include "async_decode.h"
#include "clock/timing.h"

/* ---- cp.async: op: destination, source, [source bytes, or predicate: ignore the source] ---- */

struct copies {
    uint32_t mask, bytes, group;
    const struct known *view;
    uint32_t to[LANES], source_bytes[LANES];
    uint64_t from[LANES];
};

static void copies_read(struct async_op *op) {
    const struct copies *copies = op->payload;
    FOR_LANES(rest, copies->mask) {
        int lane = LANE(rest);
        uint8_t *to = op->data + (uint32_t)lane * copies->bytes;
        memset(to, 0, copies->bytes);
        if (copies->source_bytes[lane] > 0) {
            take_global(op, copies->view, to, copies->from[lane], copies->source_bytes[lane]);
        }
    }
    group_advance(op, GROUP_CP_ASYNC, copies->group, ASYNC_READ);
}

static void copies_write(struct async_op *op) {
    const struct copies *copies = op->payload;
    FOR_LANES(rest, copies->mask) {
        int lane = LANE(rest);
        memcpy(op->cta->shared + copies->to[lane], op->data + (uint32_t)lane * copies->bytes, copies->bytes);
    }
}

static void copies_complete(struct async_op *op) {
    const struct copies *copies = op->payload;
    group_advance(op, GROUP_CP_ASYNC, copies->group, ASYNC_DONE);
}

static void copies_poison(struct async_op *op) {
    const struct copies *copies = op->payload;
    FOR_LANES(rest, copies->mask) {
        memset(op->cta->shared + copies->to[LANE(rest)], POISON_BYTE, copies->bytes);
    }
}

/* Takes as long as a load by the warp; no register waits for it. */
static void copies_timed(struct run *run, struct async_op *op) {
    const struct copies *copies = op->payload;
    struct timing *timing = run->launch->timing;
    ticks at = time_async_copy(run, run->insn, copies->from, copies->mask);
    struct request *request = copy_request(run, op, at);
    request->asker = ASKED_BY_WARP;
    uint64_t filled = 0, block = time_fetched(run->insn->name), lines[LANES];
    request->by_block = block == WIDEST_BLOCK;
    uint32_t count = 0;
    FOR_LANES(rest, copies->mask) { /* a block fetched from memory serves the other lanes too */
        request->bytes += copies->bytes;
        request->missed += time_touch_row(timing, copies->from[LANE(rest)], copies->bytes, block, &filled);
        lines[count++] = copies->from[LANE(rest)] / LINE_BYTES;
    }
    request->unloaded = request->missed > 0 ? timing->chip.hbm_latency : timing->chip.l2_latency;
    if (filled > timing->issued) {
        request->unloaded = later(request->unloaded, filled - timing->issued + timing->chip.l2_latency);
    }
    request->unloaded += time_rows(timing, lines, count, request->missed > 0);
}

static const struct async_kind copies_kind = {"cp.async",    copies_read, copies_write, copies_complete,
                                              copies_poison, NULL,        copies_timed};

static enum next exec_cp_async(struct run *run, const struct insn *insn, uint32_t mask) {
    struct copies copies = {.mask = mask,
                            .bytes = insn->cp_async.bytes,
                            .group = group_current(run->warp, GROUP_CP_ASYNC),
                            .view = delayed_view(run)};
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        uint64_t to = operand_address(run, insn, insn->cp_async.offsets, 0, lane) & ~WINDOW_MASK;
        copies.from[lane] = operand_address(run, insn, insn->cp_async.offsets, 1, lane);
        copies.source_bytes[lane] = insn->cp_async.bytes;
        if (insn->nop > 2 && insn->cp_async.ignore_predicate) { /* true: ignore the source, write zeros */
            copies.source_bytes[lane] = pred(run, insn->op[2]) >> lane & 1 ? 0 : insn->cp_async.bytes;
        } else if (insn->nop > 2) {
            uint32_t wanted = lane_u32(run, insn->op[2], lane);
            if (wanted > insn->cp_async.bytes) {
                return sim_report(run, SIM_ERROR, "copy-size", lane,
                                  "a copy of %u bytes with a source size of %u: undefined in PTX",
                                  insn->cp_async.bytes, wanted);
            }
            copies.source_bytes[lane] = wanted;
        }
        if (shared_cta(run, to, insn->cp_async.bytes, insn->cp_async.bytes, lane, true, &copies.to[lane]) ==
            NULL) {
            return FAIL;
        }
        if (copies.from[lane] % insn->cp_async.bytes != 0) {
            return sim_report(run, SIM_ERROR, "misaligned", lane, "the source %#llx is not aligned to %u bytes",
                              (unsigned long long)copies.from[lane], insn->cp_async.bytes);
        }
        if (copies.source_bytes[lane] > 0 &&
            global_memory(run, copies.from[lane], copies.source_bytes[lane], lane, false) == NULL) {
            return FAIL;
        }
        touch_global(run, copies.from[lane], copies.source_bytes[lane], lane, false);
    }
    group_add(run, GROUP_CP_ASYNC);
    if (run->cluster->checks) {
        struct epoch epoch = group_epoch(run, GROUP_CP_ASYNC, false);
        hazard_copies(run, copies.to, mask, insn->cp_async.bytes, &epoch);
    }
    async_start(run, &copies_kind, -1, &copies, sizeof copies, (size_t)LANES * insn->cp_async.bytes,
                run->warp->groups); /* a later cp.async.mbarrier.arrive comes after these copies */
    return NEXT;
}

/* ---- cp.async.mbarrier.arrive ---- */

struct copy_arrival {
    uint32_t mask, group;
    struct mbarrier *barrier[LANES];
    struct vector_clock *clock;
};

static void arrival_read(struct async_op *op) {
    const struct copy_arrival *arrival = op->payload;
    group_advance(op, GROUP_CP_ASYNC, arrival->group, ASYNC_READ);
}

static void arrival_complete(struct async_op *op) {
    const struct copy_arrival *arrival = op->payload;
    FOR_LANES(rest, arrival->mask) {
        mbarrier_async_arrive(op, arrival->barrier[LANE(rest)], arrival->clock);
    }
    if (arrival->clock != NULL) {
        vclock_release(op->cluster, arrival->clock);
    }
    group_advance(op, GROUP_CP_ASYNC, arrival->group, ASYNC_DONE);
}

static const struct async_kind arrival_kind = {
    "cp.async.mbarrier.arrive", arrival_read, NULL, arrival_complete, NULL, NULL, NULL};

static enum next exec_copy_arrive(struct run *run, const struct insn *insn, uint32_t mask) {
    struct async_op *op = async_new(run, &arrival_kind, -1, sizeof(struct copy_arrival), 0);
    struct copy_arrival *arrival = op->payload;
    arrival->mask = mask;
    arrival->group = group_current(run->warp, GROUP_CP_ASYNC);
    op->queue = run->warp->groups;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        struct mbarrier *barrier = mbarrier_at(
            run, operand_address(run, insn, insn->cp_async.offsets, 0, lane) & ~WINDOW_MASK, lane, true, false);
        if (barrier == NULL) {
            return FAIL;
        }
        if (!insn->cp_async.counted) { /* without .noinc the arrival increments the pending count first */
            barrier->pending++;
        }
        barrier->awaits_async = true;
        arrival->barrier[lane] = barrier;
    }
    group_add(run, GROUP_CP_ASYNC);
    if (run->cluster->checks) {
        struct epoch epoch = group_epoch(run, GROUP_CP_ASYNC, false);
        arrival->clock = vclock_make(run->cluster);
        vclock_copy(run->cluster, arrival->clock, run->warp->clock);
        arrival->clock->acquired[epoch.clock_index] = epoch.value;
        warp_tick(run->warp);
    }
    async_issue(run, op);
    return NEXT;
}

static void decode_cp_async(struct decoder *d) {
    struct insn *insn = d->insn;
    if (decode_group_insn(d, GROUP_CP_ASYNC)) {
        return;
    }
    int64_t *offsets = take_offsets(d);
    insn->cp_async.offsets = offsets;
    if (mod(d, "mbarrier")) {
        if (!mod(d, "arrive") || mod_space(d, SP_SHARED) != SP_SHARED || mod_type(d) != T_B64) {
            decode_fail(d, "expected cp.async.mbarrier.arrive.shared.b64");
        }
        insn->cp_async.counted = mod(d, "noinc");
        need_operands(d, 1, 1);
        emit_offset_address(d, &d->op[0], offsets);
        insn->fn = exec_copy_arrive;
        return;
    }
    bool hinted = mod(d, "L2::cache_hint");
    skip_cache_hints(d);
    unsigned to = mod_space(d, SP_GENERIC), from = mod_space(d, SP_GENERIC);
    if (to != SP_SHARED || from != SP_GLOBAL) {
        decode_fail(d, "expected a copy to .shared from .global");
    }
    need_operands(d, 3, hinted ? 5 : 4);
    int64_t bytes = immediate(d, &d->op[2]);
    if (bytes != 4 && bytes != 8 && bytes != 16) {
        decode_fail(d, "a copy of %lld bytes; expected 4, 8 or 16", (long long)bytes);
    }
    insn->cp_async.bytes = (uint8_t)bytes;
    emit_offset_address(d, &d->op[0], offsets);
    emit_offset_address(d, &d->op[1], offsets);
    if (d->nop > 3 + hinted) {
        insn->cp_async.ignore_predicate = d->op[3].kind == PO_REG && d->op[3].type == T_PRED;
        emit(d, src(d, &d->op[3], insn->cp_async.ignore_predicate ? T_PRED : T_U32));
    }
    insn->fn = exec_cp_async;
}

void decode_cp(struct decoder *d) {
    bool reduces = mod(d, "reduce");
    if (!mod(d, "async")) {
        decode_fail(d, "expected cp.async or cp.reduce.async");
    }
    if (!mod(d, "bulk")) {
        decode_cp_async(d);
    } else if (mod(d, "tensor")) {
        decode_bulk_tensor(d, reduces);
    } else {
        decode_bulk(d, reduces);
    }
}

/* ---- st.async, red.async: op: address, barrier, values ---- */

struct remote {
    struct cta *cta;
    uint32_t offset, bytes, phase;
    struct mbarrier *barrier;
    uint8_t value[16];
    enum reduction reduction;
    uint8_t type;
};

static void remote_write(struct async_op *op) {
    struct remote *remote = op->payload;
    uint8_t *to = remote->cta->shared + remote->offset;
    if (remote->reduction == REDUCE_NONE) {
        memcpy(to, remote->value, remote->bytes);
    } else {
        reduce(to, remote->value, remote->bytes, remote->reduction, remote->type);
    }
}

static void remote_complete(struct async_op *op) {
    const struct remote *remote = op->payload;
    mbarrier_complete_tx(op, remote->barrier, remote->phase, remote->bytes);
}

static void remote_poison(struct async_op *op) {
    const struct remote *remote = op->payload;
    if (remote->reduction == REDUCE_NONE) {
        memset(remote->cta->shared + remote->offset, POISON_BYTE, remote->bytes);
    }
}

static void remote_timed(struct run *run, struct async_op *op) {
    const struct remote *remote = op->payload;
    event_add_stage(run->launch->timing, op, op->cta, time_remote(run, remote->bytes), ASYNC_DONE);
}

static const struct async_kind remote_kind = {"st.async",    NULL, remote_write, remote_complete,
                                              remote_poison, NULL, remote_timed};

static enum next exec_st_async(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t element = ptx_type_bytes(insn->type);
    if (insn->remote.reduction == REDUCE_NONE && !run->launch->clustered) {
        return sim_report(run, SIM_ERROR, "no-cluster", -1,
                          "st.async in a kernel that was launched without clusters: an illegal instruction");
    }
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        struct remote remote = {.bytes = element * insn->remote.elements,
                                .reduction = (enum reduction)insn->remote.reduction,
                                .type = insn->type};
        remote.cta = shared_cta(run, operand_address(run, insn, insn->remote.offsets, 0, lane) & ~WINDOW_MASK,
                                remote.bytes, remote.bytes, lane, false, &remote.offset);
        if (remote.cta == NULL) {
            return FAIL;
        }
        remote.barrier = mbarrier_at(
            run, operand_address(run, insn, insn->remote.offsets, 1, lane) & ~WINDOW_MASK, lane, false, true);
        if (remote.barrier == NULL) {
            return FAIL;
        }
        if (remote.barrier->cta != remote.cta) {
            return sim_report(run, SIM_ERROR, "barrier-rank", lane,
                              "the store goes to CTA rank %u and its mbarrier is in rank %u", remote.cta->rank,
                              remote.barrier->cta->rank);
        }
        remote.phase = remote.barrier->phase;
        for (uint32_t i = 0; i < insn->remote.elements; i++) {
            uint64_t value = lane_u64(run, insn->op[2 + i], lane);
            memcpy(remote.value + i * element, &value, element);
        }
        if (run->cluster->checks) {
            struct epoch epoch = mbarrier_epoch(run, remote.barrier);
            phase_needs(run, remote.barrier);
            unsigned flags = ACCESS_WRITE | ACCESS_ASYNC | ACCESS_GENERIC |
                             (remote.reduction != REDUCE_NONE ? ACCESS_ATOMIC : 0u);
            (void)hazard_range(run, remote.cta, remote.offset, remote.bytes, flags, &epoch);
        }
        async_start(run, &remote_kind, lane, &remote, sizeof remote, 0, NULL);
    }
    return run->cluster->failed ? FAIL : NEXT;
}

static void decode_remote(struct decoder *d, int reduction) {
    static const char *const vectors[] = {"v2", "v4"};
    struct insn *insn = d->insn;
    (void)mod(d, "weak");
    (void)mod(d, "relaxed");
    (void)mod(d, "cluster");
    if (!mod(d, "mbarrier::complete_tx::bytes")) {
        decode_fail(d, "expected .mbarrier::complete_tx::bytes");
    }
    (void)mod_space(d, SP_GENERIC);
    int vector = mod_of(d, COUNTED(vectors));
    unsigned type = mod_type(d);
    need_operands(d, 3, 3);
    uint32_t count;
    (void)elements(&d->op[1], &count);
    insn->remote.elements = vector < 0 ? 1 : (uint8_t)(2 << vector);
    if (count != insn->remote.elements || ptx_type_bytes(type) < 4 || ptx_type_bytes(type) > 8 ||
        ptx_type_bytes(type) * count > 16) {
        decode_fail(d, "%u elements of .%s", count, ptx_type_name(type));
    }
    int64_t *offsets = take_offsets(d);
    insn->remote.offsets = offsets;
    insn->type = (uint8_t)type;
    insn->remote.reduction = (uint8_t)reduction;
    insn->cls = CL_ASYNC_COPY;
    emit_offset_address(d, &d->op[0], offsets);
    emit_offset_address(d, &d->op[2], offsets);
    (void)emit_vector(d, &d->op[1], false, type);
    insn->fn = exec_st_async;
}

void decode_st_async(struct decoder *d) {
    decode_remote(d, REDUCE_NONE);
}

void decode_red_async(struct decoder *d) {
    int reduction = decode_reduction(d);
    if (reduction == REDUCE_NONE) {
        decode_fail(d, "expected a reduction, e.g. .add");
    }
    decode_remote(d, reduction);
}
