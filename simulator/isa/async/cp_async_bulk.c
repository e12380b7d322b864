/* cp.async.bulk and cp.reduce.async.bulk without tensor maps (PTX ISA, Data Movement): decoding and issue. */
#include "async/bulk.h"
#include "async/groups.h"
#include "async_decode.h"
#include "ptx/ir.h"

/* op[] of a load: destination, source, size, barrier, [multicast mask]; of a store: destination, source, size,
 * [byte mask]. */
enum { O_TO, O_FROM, O_SIZE, O_BARRIER, O_MASK, O_BYTES = O_BARRIER };

static uint64_t address_of(const struct run *run, const struct insn *insn, int at, int lane) {
    return operand_address(run, insn, insn->bulk.offsets, at, lane);
}

static uint64_t shared_address(const struct run *run, const struct insn *insn, int at, int lane) {
    return address_of(run, insn, at, lane) & ~WINDOW_MASK;
}

static bool right_size(struct run *run, uint64_t bytes, int lane) {
    if (bytes == 0 || bytes % 16 != 0 || bytes > MAX_SHARED) {
        (void)sim_report(run, SIM_ERROR, "copy-size", lane,
                         "a bulk copy of %llu bytes; expected a multiple of 16", (unsigned long long)bytes);
        return false;
    }
    return true;
}

static enum next exec_bulk_load(struct run *run, const struct insn *insn, uint32_t mask) {
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        uint32_t bytes = lane_u32(run, insn->op[O_SIZE], lane), offset;
        int64_t targets = insn->bulk.multicast ? (int64_t)(lane_u32(run, insn->op[O_MASK], lane) & 0xffff) : -1;
        struct load load = {.bytes = bytes, .view = delayed_view(run)};
        if (!right_size(run, bytes, lane) ||
            !make_destinations(run, &load, shared_address(run, insn, O_TO, lane),
                               shared_address(run, insn, O_BARRIER, lane), bytes, 16, lane, targets, 1)) {
            return FAIL;
        }
        if (insn->bulk.from_shared) {
            load.from_cta =
                shared_cta(run, shared_address(run, insn, O_FROM, lane), bytes, 16, lane, true, &offset);
            if (load.from_cta == NULL) {
                return FAIL;
            }
            load.from = offset;
            if (run->cluster->checks) { /* the source is free once the destination's barrier completes */
                struct epoch epoch = mbarrier_epoch(run, load.destination[0].barrier);
                (void)hazard_range(run, load.from_cta, offset, bytes, ACCESS_ASYNC, &epoch);
            }
        } else {
            load.from = address_of(run, insn, O_FROM, lane);
            if (load.from % 16 != 0) {
                return sim_report(run, SIM_ERROR, "misaligned", lane,
                                  "the source %#llx of a bulk copy is not aligned to 16 bytes",
                                  (unsigned long long)load.from);
            }
            if (global_memory(run, load.from, bytes, lane, false) == NULL) {
                return FAIL;
            }
            touch_global(run, load.from, bytes, lane, false);
        }
        record_destinations(run, &load, bytes, bytes);
        async_start(run, &load_kind, lane, &load, sizeof load, bytes, NULL);
    }
    return NEXT;
}

static bool same_operands(const struct run *run, const struct insn *insn, int lane, int other) {
    for (uint32_t i = 0; i < insn->nop; i++) {
        if (lane_u64(run, insn->op[i], lane) != lane_u64(run, insn->op[i], other)) {
            return false;
        }
    }
    return true;
}

/* HW: a warp issues a plain store once for each distinct set of operands among its lanes: ptxas 13.0 loops over
 * R2UR matches around UBLKCP.G.S and UTMASTG on sm_90a and sm_100a.  Loads and reductions, whose repetition
 * would show, it issues once a lane, in a loop over ELECT. */
uint32_t distinct_lanes(const struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t distinct = 0;
    while (mask != 0) {
        int first = LANE(mask);
        distinct |= UINT32_C(1) << first;
        FOR_LANES(rest, mask) {
            int lane = LANE(rest);
            mask &= same_operands(run, insn, first, lane) ? ~(UINT32_C(1) << lane) : UINT32_MAX;
        }
    }
    return distinct;
}

/* Checks only the bytes that the mask selects: the others need not be in an allocation. */
static bool store_fits(struct run *run, const struct store *store, int lane) {
    for (uint32_t at = 0, part; (part = store_run(store, &at)) > 0; at += part) {
        if (global_memory(run, store->to + at, part, lane, true) == NULL) {
            return false;
        }
        touch_global(run, store->to + at, part, lane, true);
    }
    return true;
}

static enum next exec_bulk_store(struct run *run, const struct insn *insn, uint32_t mask) {
    FOR_LANES(rest, insn->bulk.reduction == REDUCE_NONE ? distinct_lanes(run, insn, mask) : mask) {
        int lane = LANE(rest);
        struct store store = {.bytes = lane_u32(run, insn->op[O_SIZE], lane),
                              .to = address_of(run, insn, O_TO, lane),
                              .reduction = (enum reduction)insn->bulk.reduction,
                              .type = insn->type,
                              .kept = ALL_BYTES};
        if (insn->bulk.masked) {
            store.kept = (uint16_t)lane_u32(run, insn->op[O_BYTES], lane);
        }
        if (!right_size(run, store.bytes, lane) ||
            shared_cta(run, shared_address(run, insn, O_FROM, lane), store.bytes, 16, lane, true,
                       &store.from) == NULL) {
            return FAIL;
        }
        if (store.to % 16 != 0) {
            return sim_report(run, SIM_ERROR, "misaligned", lane,
                              "the destination %#llx of a bulk copy is not aligned to 16 bytes",
                              (unsigned long long)store.to);
        }
        if (!store_fits(run, &store, lane)) {
            return FAIL;
        }
        issue_store(run, &store, store.bytes, lane);
    }
    return NEXT;
}

/* op[]: source, size. Only affects simulated time: L2 fetches what it does not hold. */
enum { O_PREFETCH, O_PREFETCH_SIZE };

static enum next exec_bulk_prefetch(struct run *run, const struct insn *insn, uint32_t mask) {
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        uint64_t from = address_of(run, insn, O_PREFETCH, lane);
        uint32_t bytes = lane_u32(run, insn->op[O_PREFETCH_SIZE], lane);
        if (bytes % 16 != 0) { /* unlike a copy, not limited by the size of shared memory */
            return sim_report(run, SIM_ERROR, "copy-size", lane,
                              "a bulk prefetch of %u bytes; expected a multiple of 16", bytes);
        }
        if (from % 16 != 0) {
            return sim_report(run, SIM_ERROR, "misaligned", lane,
                              "the source %#llx of a bulk prefetch is not aligned to 16 bytes",
                              (unsigned long long)from);
        }
        if (run->launch->timing != NULL) {
            prefetch_timed(run, from, bytes);
        }
    }
    return NEXT;
}

static enum next exec_wait_group(struct run *run, const struct insn *insn, uint32_t mask) {
    (void)mask;
    return groups_wait(run, (enum group_family)insn->group.family, insn->group.pending, insn->group.read);
}

static enum next exec_commit_group(struct run *run, const struct insn *insn, uint32_t mask) {
    (void)mask;
    return groups_commit(run, (enum group_family)insn->group.family);
}

bool decode_group_insn(struct decoder *d, unsigned family) {
    d->insn->group.family = (uint8_t)family;
    if (mod(d, "wait_group")) {
        d->insn->group.read = family == GROUP_BULK && mod(d, "read");
        need_operands(d, 1, 1);
        d->insn->group.pending = (uint32_t)immediate(d, &d->op[0]);
        d->insn->fn = exec_wait_group;
    } else if (family == GROUP_CP_ASYNC && mod(d, "wait_all")) {
        need_operands(d, 0, 0);
        d->insn->group.pending = UINT32_MAX; /* uncommitted copies included */
        d->insn->fn = exec_wait_group;
    } else if (mod(d, "commit_group")) {
        need_operands(d, 0, 0);
        d->insn->fn = exec_commit_group;
    }
    return d->insn->fn != NULL;
}

int decode_reduction(struct decoder *d) {
    static const char *const names[] = {"add", "min", "max", "inc", "dec", "and", "or", "xor"};
    return mod_of(d, COUNTED(names)) + 1;
}

void decode_bulk(struct decoder *d, bool reduces) {
    struct insn *insn = d->insn;
    if (decode_group_insn(d, GROUP_BULK)) {
        return;
    }
    if (mod(d, "prefetch")) {
        bool hinted = mod(d, "L2::cache_hint");
        if (!mod(d, "L2") || mod_space(d, SP_GENERIC) != SP_GLOBAL) {
            decode_fail(d, "a bulk prefetch needs .L2.global");
        }
        int64_t *offsets = take_offsets(d);
        insn->bulk.offsets = offsets;
        need_operands(d, 2, 2 + hinted);
        emit_offset_address(d, &d->op[0], offsets);
        emit(d, src(d, &d->op[1], T_U32));
        insn->fn = exec_bulk_prefetch;
        return;
    }
    int reduction = reduces ? decode_reduction(d) : REDUCE_NONE;
    bool group = mod(d, "bulk_group"), barrier = mod(d, "mbarrier::complete_tx::bytes");
    bool multicast = mod(d, "multicast::cluster"), masked = mod(d, "cp_mask");
    bool hinted = mod(d, "L2::cache_hint");
    (void)mod(d, "noftz");
    unsigned to = mod_space(d, SP_GENERIC), from = mod_space(d, SP_GENERIC);
    insn->type = reduces ? (uint8_t)mod_type(d) : T_B8;
    insn->bulk.reduction = (uint8_t)reduction;
    if ((reduces && reduction == REDUCE_NONE) || group == barrier) {
        decode_fail(
            d, "expected either .bulk_group or .mbarrier::complete_tx::bytes, and for cp.reduce a reduction");
    }
    if (masked && (reduces || !group || d->parser->module->sm < 100)) {
        decode_fail(d, ".cp_mask is for copies to global memory, on sm_100 or later");
    }
    if (reduces && !(to == SP_GLOBAL && group)) {
        decode_fail(d, "reductions into shared memory are not supported");
    }
    int64_t *offsets = take_offsets(d);
    insn->bulk.offsets = offsets;
    int operands = group ? 3 + masked : 4 + multicast;
    need_operands(d, operands, operands + hinted);
    emit_offset_address(d, &d->op[0], offsets);
    emit_offset_address(d, &d->op[1], offsets);
    emit(d, src(d, &d->op[2], T_U32));
    if (group) {
        if (to != SP_GLOBAL || from != SP_SHARED) {
            decode_fail(d, ".bulk_group needs a copy from .shared::cta to .global");
        }
        if (masked) { /* it follows the cache policy */
            emit(d, src(d, &d->op[d->nop - 1], T_U16));
        }
        insn->bulk.masked = masked;
        insn->fn = exec_bulk_store;
        return;
    }
    if ((to != SP_SHARED && to != SP_SHARED_CLUSTER) || (from != SP_GLOBAL && from != SP_SHARED)) {
        decode_fail(d, "expected a copy to shared memory from .global or .shared::cta");
    }
    emit_offset_address(d, &d->op[3], offsets);
    if (multicast) {
        emit(d, src(d, &d->op[4], T_U16));
    }
    insn->bulk.multicast = multicast;
    insn->bulk.from_shared = from == SP_SHARED;
    insn->fn = exec_bulk_load;
}
