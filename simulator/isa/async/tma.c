/* Issue of cp.async.bulk.tensor and cp.reduce.async.bulk.tensor (PTX ISA, Data Movement: cp.async.bulk.tensor;
 * Tensors; Swizzling modes). */
#include "async/bulk.h"
#include "async/groups.h"
#include "async/map_change.h"
#include "async_decode.h"

/* op: shared address, tensor map, barrier (loads), [multicast mask], coordinates, [im2col offsets and halo]. */
enum { O_SHARED, O_MAP, O_BARRIER };

/* HW: of a box in shared memory. */
#define SHARED_ALIGNMENT 128

static uint64_t address_of(const struct run *run, const struct insn *insn, int at, int lane) {
    return operand_address(run, insn, insn->tensor_copy.offsets, at, lane);
}

static struct tensor_place read_place(const struct run *run, const struct insn *insn, int lane) {
    struct tensor_place place = {.mode = (enum tensor_mode)insn->tensor_copy.mode};
    const struct operand *op = &insn->op[insn->tensor_copy.coordinates];
    uint32_t extra[MAX_SPATIAL] = {0};
    if (place.mode == TENSOR_ROWS) {
        place.at[0] = (int32_t)lane_u32(run, op[0], lane);
        for (uint32_t i = 0; i < ROWS_AT_ONCE; i++) {
            place.rows[i] = (int32_t)lane_u32(run, op[1 + i], lane);
        }
        return place;
    }
    for (uint32_t i = 0; i < insn->tensor_copy.rank; i++) {
        place.at[i] = (int32_t)lane_u32(run, op[i], lane);
    }
    for (uint32_t i = 0; i < insn->tensor_copy.extras; i++) {
        extra[i] = lane_u32(run, op[insn->tensor_copy.rank + i], lane) & UINT16_MAX;
    }
    bool wide = place.mode == TENSOR_IM2COL_W;
    place.halo = wide ? extra[0] : 0;
    for (uint32_t i = 0; i < MAX_SPATIAL; i++) {
        place.offset[i] = wide ? (i == 0 ? extra[1] : 0) : extra[i];
    }
    return place;
}

/* Reads and checks the tensor map and coordinates; false after a report. */
static bool read_box(struct run *run, const struct insn *insn, int lane, bool store, struct tensor_box *box) {
    struct cta *cta;
    uint32_t offset;
    struct sim_tensor_map map;
    struct tensor_place place = read_place(run, insn, lane);
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
                             ? "the tensor map at %#llx was modified by something other than tensormap.replace"
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
    bool packed = map.data_type >= TYPE_16U4_ALIGN8B || map.swizzle > SWIZZLE_128B;
    if (insn->tensor_copy.plain_types && packed) {
        (void)sim_report(
            run, SIM_ERROR, "tensor-map", lane,
            "on sm_120, packed types and swizzle atoms over 16 bytes need a copy to .shared::cta, not "
            ".shared::cluster");
        return false;
    }
    if (!tensor_place_check(&map, &place, store, why, sizeof why)) {
        (void)sim_report(run, SIM_ERROR, "tensor-map", lane, "%s", why);
        return false;
    }
    tensor_box_make(&map, &place, box);
    return true;
}

/* Checks that every row inside the tensor is inside an allocation too. */
static bool rows_exist(struct run *run, const struct tensor_box *box, int lane, bool write) {
    for (uint32_t i = 0; i < box->rows; i++) {
        const struct box_row row = tensor_box_row(box, i);
        if (row.bytes == 0) {
            continue;
        }
        if (global_memory(run, row.address, row.bytes, lane, write) == NULL) {
            return false;
        }
        touch_global(run, row.address, row.bytes, lane, write);
    }
    return true;
}

/* HW: a store may extend past the end of a tensor, but a negative coordinate is an illegal instruction
 * (measured on an H200; CUDA programming guide, tensor memory access; PTX ISA, Tensor copy: restrictions). */
static bool starts_inside(struct run *run, const struct tensor_box *box, int lane) {
    const struct tensor_place *place = &box->place;
    bool rows = place->mode == TENSOR_ROWS;
    for (uint32_t i = 0; i < (rows ? 1 + ROWS_AT_ONCE : box->map.rank); i++) {
        int64_t at = rows && i > 0 ? place->rows[i - 1] : place->at[i];
        if (at < 0) {
            (void)sim_report(run, SIM_ERROR, "out-of-bounds", lane,
                             "a tensor store at coordinate %lld of dimension %u: it may not be negative",
                             (long long)at, rows && i > 0 ? 1 : i);
            return false;
        }
    }
    return true;
}

/* Bytes of shared memory that a box spans; with a swizzle, whole rows of its width. */
static uint32_t span_of(const struct tensor_box *box) {
    return box->map.swizzle != 0 ? box->rows * box->pitch
                                 : (box->rows - 1) * box->pitch + box->shared_row_bytes;
}

/* Bytes of a box in shared memory, before padding to the swizzle's width. */
static uint32_t shared_bytes(const struct tensor_box *box) {
    return box->rows * box->shared_row_bytes;
}

enum next exec_tensor_load(struct run *run, const struct insn *insn, uint32_t mask) {
    bool multicast = insn->tensor_copy.multicast;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        struct load load = {.tensor = true, .view = delayed_view(run)};
        if (!read_box(run, insn, lane, false, &load.box)) {
            return FAIL;
        }
        load.bytes = load.box.bytes;
        uint32_t span = span_of(&load.box);
        int64_t targets = multicast ? (int64_t)(lane_u32(run, insn->op[3], lane) & 0xffff) : -1;
        if (!rows_exist(run, &load.box, lane, false) ||
            !make_destinations(run, &load, address_of(run, insn, O_SHARED, lane) & ~WINDOW_MASK,
                               address_of(run, insn, O_BARRIER, lane) & ~WINDOW_MASK, span, SHARED_ALIGNMENT,
                               lane, targets, insn->tensor_copy.cta_group)) {
            return FAIL;
        }
        record_destinations(run, &load, span, load.bytes);
        for (uint32_t i = 0; i < load.destinations; i++) {
            struct epoch epoch = mbarrier_epoch(run, load.destination[i].barrier);
            map_used(run, address_of(run, insn, O_MAP, lane), &epoch);
        }
        async_start(run, &load_kind, lane, &load, sizeof load, shared_bytes(&load.box), NULL);
    }
    return run->cluster->failed ? FAIL : NEXT;
}

/* Only affects simulated time: L2 fetches what it does not hold. */
enum next exec_tensor_prefetch(struct run *run, const struct insn *insn, uint32_t mask) {
    FOR_LANES(rest, mask) {
        struct tensor_box box;
        if (!read_box(run, insn, LANE(rest), false, &box)) {
            return FAIL;
        }
        if (run->launch->timing != NULL) {
            prefetch_box_timed(run, &box);
        }
    }
    return NEXT;
}

enum next exec_tensor_store(struct run *run, const struct insn *insn, uint32_t mask) {
    bool reduces = insn->tensor_copy.reduction != REDUCE_NONE;
    FOR_LANES(rest, reduces ? mask : distinct_lanes(run, insn, mask)) {
        int lane = LANE(rest);
        struct store store = {
            .tensor = true, .reduction = (enum reduction)insn->tensor_copy.reduction, .kept = ALL_BYTES};
        if (!read_box(run, insn, lane, true, &store.box) || !starts_inside(run, &store.box, lane) ||
            !rows_exist(run, &store.box, lane, true)) {
            return FAIL;
        }
        /* A reduction uses the tensor's element type. */
        static const uint8_t types[] = {T_B8,  T_U16, T_U32,  T_S32, T_U64, T_S64, T_F16,
                                        T_F32, T_F64, T_BF16, T_F32, T_F32, T_F32};
        uint32_t type = store.box.map.data_type;
        if (store.reduction != REDUCE_NONE && (type >= sizeof types || types[type] == T_B8)) {
            return sim_report(run, SIM_ERROR, "tensor-map", lane, "a reduction into a tensor of type %u", type);
        }
        store.type = type < sizeof types ? types[type] : T_B8;
        store.bytes = shared_bytes(&store.box);
        uint32_t span = span_of(&store.box);
        if (shared_cta(run, address_of(run, insn, O_SHARED, lane) & ~WINDOW_MASK, span, SHARED_ALIGNMENT, lane,
                       true, &store.from) == NULL) {
            return FAIL;
        }
        struct epoch epoch = group_epoch(run, GROUP_BULK, false);
        map_used(run, address_of(run, insn, O_MAP, lane), &epoch);
        issue_store(run, &store, span, lane);
    }
    return NEXT;
}
