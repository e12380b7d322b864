/* cp.async.bulk.tensor, tiled mode (PTX ISA, Data Movement: cp.async.bulk.tensor; Tensors; Swizzling modes). */
#include "async/bulk.h"
#include "async/groups.h"
#include "async/map_change.h"
#include "decode.h"

/* op: shared address, tensor map, barrier (loads), multicast mask (if any), coordinates. */
enum { O_SHARED, O_MAP, O_BARRIER };

static uint64_t address_of(const struct run *run, const struct insn *insn, int at, int lane) {
    return operand_address(run, insn, insn->tensor_copy.offsets, at, lane);
}

/* The box that an instruction names; false after a report. */
static bool read_box(struct run *run, const struct insn *insn, int coordinates_at, int lane,
                     struct tensor_box *box) {
    struct cta *cta;
    uint32_t offset;
    int64_t at[MAX_RANK];
    struct sim_tensor_map map;
    uint64_t address = address_of(run, insn, O_MAP, lane);
    if (address % 64 != 0) {
        (void)sim_report(run, SIM_ERROR, "tensor-map", lane,
                         "the tensor map at %#llx is not aligned to 64 bytes", (unsigned long long)address);
        return false;
    }
    const uint8_t *bytes = generic_memory(run, address, SIM_TENSOR_MAP_BYTES, lane, false, &cta, &offset);
    if (bytes == NULL) {
        return false;
    }
    enum map_state state = tensor_map_read(bytes, &map);
    if (cta != NULL || state != MAP_READ) {
        (void)sim_report(run, SIM_ERROR, "tensor-map", lane,
                         cta == NULL && state == MAP_CHANGED
                             ? "the bytes of the tensor map at %#llx were changed by something else than "
                               "tensormap.replace"
                             : "there is no tensor map at %#llx",
                         (unsigned long long)address);
        return false;
    }
    if (map.rank != insn->tensor_copy.rank) {
        (void)sim_report(run, SIM_ERROR, "tensor-map", lane, "a %ud instruction with a tensor map of rank %u",
                         insn->tensor_copy.rank, map.rank);
        return false;
    }
    char why[200];
    if (!tensor_map_check(&map, why, sizeof why)) {
        (void)sim_report(run, SIM_ERROR, "tensor-map", lane, "the tensor map that the kernel made: %s", why);
        return false;
    }
    if (map.swizzle == SWIZZLE_128B_ATOM_32B_FLIP_8B) {
        (void)sim_report(run, SIM_INCOMPLETE, "tensor-map", lane, "swizzle mode %u is not modelled",
                         map.swizzle);
        return false;
    }
    for (uint32_t i = 0; i < map.rank; i++) {
        at[i] = (int32_t)lane_u32(run, insn->op[coordinates_at + (int)i], lane);
    }
    if (!tensor_box_make(&map, at, box)) {
        (void)sim_report(run, SIM_INCOMPLETE, "tensor-map", lane,
                         "an element stride in the innermost dimension");
        return false;
    }
    return true;
}

/* Every row that lies inside the tensor has to lie inside an allocation too. */
static bool rows_exist(struct run *run, const struct tensor_box *box, int lane, bool write) {
    for (uint32_t i = 0; i < box->rows; i++) {
        uint32_t first, bytes;
        uint64_t address;
        if (!tensor_box_row(box, i, &first, &bytes, &address)) {
            continue;
        }
        if (global_memory(run, address, bytes, lane, write) == NULL) {
            return false;
        }
        touch_global(run, address, bytes, lane, write);
    }
    return true;
}

/* HW: a store may run past the end of a tensor but not start before it: an illegal instruction (measured on an
 * H200; CUDA programming guide, tensor memory access). */
static bool starts_inside(struct run *run, const struct tensor_box *box, int lane) {
    for (uint32_t i = 0; i < box->map.rank; i++) {
        if (box->at[i] < 0) {
            (void)sim_report(run, SIM_ERROR, "out-of-bounds", lane,
                             "a tensor store at coordinate %lld of dimension %u: it may not be negative",
                             (long long)box->at[i], i);
            return false;
        }
    }
    return true;
}

/* HW: 128 bytes; a swizzled box needs its pattern's repeat, or rows land in other places than expected. */
static uint32_t shared_alignment(const struct tensor_box *box) {
    (void)box;
    return 128;
}

/* What a box takes in shared memory, without padding to the swizzle's width. */
static uint32_t shared_bytes(const struct tensor_box *box) {
    return box->rows * box->shared_row_bytes;
}

static enum next exec_tensor_load(struct run *run, const struct insn *insn, uint32_t mask) {
    bool multicast = insn->tensor_copy.multicast;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        struct load load = {.tensor = true, .view = delayed_view(run)};
        if (!read_box(run, insn, multicast ? 4 : 3, lane, &load.box)) {
            return FAIL;
        }
        load.bytes = load.box.bytes;
        uint32_t span = (load.box.rows - 1) * load.box.pitch + load.box.shared_row_bytes;
        span = load.box.map.swizzle != 0 ? load.box.rows * load.box.pitch : span;
        int64_t targets = multicast ? (int64_t)(lane_u32(run, insn->op[3], lane) & 0xffff) : -1;
        if (!rows_exist(run, &load.box, lane, false) ||
            !make_destinations(run, &load, address_of(run, insn, O_SHARED, lane) & ~WINDOW_MASK,
                               address_of(run, insn, O_BARRIER, lane) & ~WINDOW_MASK, span,
                               shared_alignment(&load.box), lane, targets, insn->tensor_copy.cta_group)) {
            return FAIL;
        }
        record_destinations(run, &load, span, load.bytes);
        for (uint32_t i = 0; i < load.destinations; i++) {
            struct epoch epoch = mbarrier_epoch(run, load.destination[i].barrier);
            map_used(run, address_of(run, insn, O_MAP, lane), &epoch);
        }
        struct async_op *op = async_new(run, &load_kind, lane, sizeof load, shared_bytes(&load.box));
        memcpy(op->payload, &load, sizeof load);
        async_issue(run, op);
    }
    return run->cluster->failed ? FAIL : NEXT;
}

static enum next exec_tensor_store(struct run *run, const struct insn *insn, uint32_t mask) {
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        struct store store = {.tensor = true, .reduction = (enum reduction)insn->tensor_copy.reduction};
        if (!read_box(run, insn, 2, lane, &store.box) || !starts_inside(run, &store.box, lane) ||
            !rows_exist(run, &store.box, lane, true)) {
            return FAIL;
        }
        /* A reduction's type is the tensor's. */
        static const uint8_t types[] = {T_B8,  T_U16, T_U32,  T_S32, T_U64, T_S64, T_F16,
                                        T_F32, T_F64, T_BF16, T_F32, T_F32, T_F32};
        uint32_t type = store.box.map.data_type;
        if (store.reduction != REDUCE_NONE && (type >= sizeof types || types[type] == T_B8)) {
            return sim_report(run, SIM_ERROR, "tensor-map", lane, "a reduction into a tensor of type %u", type);
        }
        store.type = type < sizeof types ? types[type] : T_B8;
        store.bytes = shared_bytes(&store.box);
        uint32_t span = (store.box.rows - 1) * store.box.pitch + store.box.shared_row_bytes;
        span = store.box.map.swizzle != 0 ? store.box.rows * store.box.pitch : span;
        if (shared_cta(run, address_of(run, insn, O_SHARED, lane) & ~WINDOW_MASK, span, 128, lane, true,
                       &store.from) == NULL) {
            return FAIL;
        }
        struct epoch epoch = group_epoch(run, GROUP_BULK, false);
        map_used(run, address_of(run, insn, O_MAP, lane), &epoch);
        issue_store(run, &store, span, lane);
    }
    return NEXT;
}

static void emit_coordinates(struct decoder *d, const struct pop *tensor, int rank) {
    uint32_t count = 0;
    const struct pop *list =
        tensor->kind == PO_ADDRESS && tensor->count == 2 ? elements(&tensor->sub[1], &count) : NULL;
    if (list == NULL || (int)count != rank) {
        decode_fail(d, "a tensor operand needs its map and %d coordinates", rank);
    }
    for (int i = 0; i < rank; i++) {
        emit(d, src(d, &list[i], T_S32));
    }
}

void decode_bulk_tensor(struct decoder *d, bool reduces) {
    static const char *const ranks[] = {"1d", "2d", "3d", "4d", "5d", NULL};
    struct insn *insn = d->insn;
    if (mod(d, "prefetch")) {
        d->nmods = 0;
        insn->fn = exec_cp_nothing;
        return;
    }
    int reduction = reduces ? decode_reduction(d) : REDUCE_NONE;
    int rank = mod_of(d, ranks) + 1;
    (void)mod(d, "tile");
    static const char *const im2col[] = {"im2col",        "im2col::w",      "im2col::w::128",
                                         "tile::gather4", "tile::scatter4", NULL};
    if (mod_of(d, im2col) >= 0) {
        decode_fail(d, "only the tiled mode is supported: no im2col, gather4 or scatter4");
    }
    bool group = mod(d, "bulk_group"), barrier = mod(d, "mbarrier::complete_tx::bytes");
    bool multicast = mod(d, "multicast::cluster"), pair = mod(d, "cta_group::2");
    (void)mod(d, "cta_group::1");
    bool hinted = mod(d, "L2::cache_hint");
    unsigned to = mod_space(d, SP_GENERIC), from = mod_space(d, SP_GENERIC);
    if (rank == 0 || group == barrier || (reduces && (reduction == REDUCE_NONE || !group))) {
        decode_fail(d, "unknown form");
    }
    int64_t *offsets = take_offsets(d);
    insn->tensor_copy.offsets = offsets;
    insn->tensor_copy.rank = (uint8_t)rank;
    if (group) {
        need_operands(d, 2, 2 + hinted);
        if (to != SP_GLOBAL || from != SP_SHARED) {
            decode_fail(d, "a bulk group goes from shared::cta to global memory");
        }
        emit_offset_address(d, &d->op[1], offsets);
        emit_offset_address(d, &d->op[0], offsets);
        emit_coordinates(d, &d->op[0], rank);
        insn->tensor_copy.reduction = (uint8_t)reduction;
        insn->fn = exec_tensor_store;
        return;
    }
    need_operands(d, 3 + multicast, 3 + multicast + hinted);
    if ((to != SP_SHARED && to != SP_SHARED_CLUSTER) || from != SP_GLOBAL) {
        decode_fail(d, "unknown state spaces");
    }
    emit_offset_address(d, &d->op[0], offsets);
    emit_offset_address(d, &d->op[1], offsets);
    emit_offset_address(d, &d->op[2], offsets);
    if (multicast) {
        emit(d, src(d, &d->op[3], T_U16));
    }
    emit_coordinates(d, &d->op[1], rank);
    insn->tensor_copy.multicast = multicast;
    insn->tensor_copy.cta_group = pair ? 2 : 1;
    insn->fn = exec_tensor_load;
}
