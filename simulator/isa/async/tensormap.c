/* tensormap.replace and tensormap.cp_fenceproxy (PTX ISA, Data Movement). A map is decoded into the parameters
 * of cuTensorMapEncodeTiled, changed, and encoded again; the chip's own layout is not modelled. */
#include "async/map_change.h"
#include "async/tensor_map.h"
#include "async_decode.h"

enum {
    F_ADDRESS,
    F_RANK,
    F_BOX,
    F_SIZE,
    F_STRIDE,
    F_STEP,
    F_TYPE,
    F_INTERLEAVE,
    F_SWIZZLE,
    F_ATOMICITY,
    F_FILL
};

static const char *const fields[] = {
    "global_address", "rank",     "box_dim",           "global_dim",   "global_stride",
    "element_stride", "elemtype", "interleave_layout", "swizzle_mode", "swizzle_atomicity",
    "fill_mode"};

static bool is_indexed(uint32_t field) {
    return field >= F_BOX && field <= F_STEP;
}

/* CUtensorMapDataType by the .elemtype value of PTX (PTX ISA, tensormap.replace). */
static const uint8_t element_types[] = {0, 1, 2, 3, 4, 5, 6, 7, 10, 8, 9, 11, 12, 13, 14, 15};

static bool put_field(struct sim_tensor_map *map, uint32_t field, uint32_t at, uint64_t value) {
    uint32_t limit = field == F_STRIDE ? 4 : 5;
    /* CUtensorMapSwizzle has one 128-byte mode for each atom: 16 bytes, 32, 32 with a flip, 64. */
    uint32_t atomicity = map->swizzle > SWIZZLE_128B ? map->swizzle - SWIZZLE_128B : 0;
    if (is_indexed(field) && at >= limit) {
        return false;
    }
    switch (field) {
    case F_ADDRESS:
        map->address = (const void *)(uintptr_t)value;
        return true;
    case F_RANK: /* the value is the number of dimensions minus one */
        map->rank = (uint32_t)value + 1;
        return true;
    case F_BOX:
        map->box[at] = (uint32_t)value;
        return true;
    case F_SIZE:
        map->sizes[at] = (uint32_t)value;
        return true;
    case F_STRIDE:
        map->strides[at] = value;
        return true;
    case F_STEP:
        map->element_strides[at] = (uint32_t)value;
        return true;
    case F_TYPE:
        map->data_type = value < sizeof element_types ? element_types[value] : UINT32_MAX;
        return true;
    case F_SWIZZLE: /* value 4, 96 bytes, exists on sm_103a only and not in the driver API */
        if (value > SWIZZLE_128B || (atomicity != 0 && value != SWIZZLE_128B)) {
            return false;
        }
        map->swizzle = (uint32_t)value + atomicity;
        return true;
    case F_ATOMICITY: /* PTX ISA, Swizzling Modes: atoms other than 16 bytes need the 128-byte mode */
        if (value > 3 || (value != 0 && map->swizzle < SWIZZLE_128B)) {
            return false;
        }
        map->swizzle = map->swizzle - atomicity + (uint32_t)value;
        return true;
    case F_FILL:
        map->oob_fill = (uint32_t)value;
        return true;
    default: /* an interleave layout */
        return value == 0;
    }
}

/* op: new value, address; insn->tensor_map has the field. */
static enum next exec_replace(struct run *run, const struct insn *insn, uint32_t mask) {
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        struct cta *cta = NULL;
        uint32_t offset = 0;
        struct sim_tensor_map map;
        uint64_t address = lane_u64(run, insn->op[1], lane) + (uint64_t)insn->offset;
        address |= insn->space == SP_SHARED ? SHARED_WINDOW : 0;
        uint8_t *bytes = generic_memory(run, address, SIM_TENSOR_MAP_BYTES, lane, true, &cta, &offset);
        if (bytes == NULL) {
            return FAIL;
        }
        enum map_state state = tensor_map_read(bytes, &map);
        if (state == MAP_NONE || state == MAP_CHANGED) {
            return sim_report(run, SIM_ERROR, "tensor-map", lane, "there is no tensor map at %#llx",
                              (unsigned long long)address);
        }
        if (map.mode != SIM_TENSOR_TILED) {
            return sim_report(run, SIM_ERROR, "tensor-map", lane,
                              "tensormap.replace.tile of a tensor map for im2col");
        }
        if (!put_field(&map, insn->tensor_map.field, insn->tensor_map.dimension,
                       lane_u64(run, insn->op[0], lane)) ||
            !tensor_map_write(bytes, &map)) {
            return sim_report(run, SIM_INCOMPLETE, "tensor-map", lane,
                              "tensormap.replace of .%s by a value that is not modelled",
                              fields[insn->tensor_map.field]);
        }
        if (cta == NULL) {
            map_changed(run, address);
            touch_global(run, address, SIM_TENSOR_MAP_BYTES, lane, true);
        } else if (run->cluster->checks) {
            struct epoch epoch = warp_epoch(run, mask);
            (void)hazard_range(run, cta, offset, SIM_TENSOR_MAP_BYTES, ACCESS_WRITE, &epoch);
        }
    }
    return NEXT;
}

/* op: destination, source, the same in all lanes. */
static enum next exec_copy(struct run *run, const struct insn *insn, uint32_t mask) {
    const int64_t *offsets = insn->tensor_map.offsets;
    int lane = __builtin_ctz(mask);
    uint64_t to = operand_address(run, insn, offsets, 0, lane);
    uint64_t from = operand_address(run, insn, offsets, 1, lane) & ~WINDOW_MASK;
    uint32_t offset;
    struct cta *cta = shared_cta(run, from, SIM_TENSOR_MAP_BYTES, SIM_TENSOR_MAP_BYTES, lane, true, &offset);
    uint8_t *target = cta == NULL ? NULL : global_memory(run, to, SIM_TENSOR_MAP_BYTES, lane, true);
    if (target == NULL) {
        return FAIL;
    }
    if (run->cluster->checks) {
        struct epoch epoch = warp_epoch(run, mask);
        (void)hazard_range(run, cta, offset, SIM_TENSOR_MAP_BYTES, ACCESS_READ, &epoch);
    }
    memcpy(target, cta->shared + offset, SIM_TENSOR_MAP_BYTES);
    map_changed(run, to);
    touch_global(run, to, SIM_TENSOR_MAP_BYTES, lane, true);
    return NEXT;
}

static void decode_copy(struct decoder *d) {
    static const char *const words[] = {
        "tensormap::generic", "release", "cta", "cluster", "gpu", "sys", "sync"};
    while (mod_of(d, COUNTED(words)) >= 0) {
    }
    d->insn->aligned = mod(d, "aligned");
    if (mod_space(d, SP_GENERIC) != SP_GLOBAL || mod_space(d, SP_GENERIC) != SP_SHARED || !d->insn->aligned) {
        decode_fail(d, "expected .global.shared::cta and .sync.aligned");
    }
    int64_t *offsets = take_offsets(d);
    need_operands(d, 3, 3);
    if (immediate(d, &d->op[2]) != SIM_TENSOR_MAP_BYTES) {
        decode_fail(d, "a tensor map has 128 bytes");
    }
    d->insn->tensor_map.offsets = offsets;
    emit_offset_address(d, &d->op[0], offsets);
    emit_offset_address(d, &d->op[1], offsets);
    d->insn->fn = exec_copy;
}

void decode_tensormap(struct decoder *d) {
    struct insn *insn = d->insn;
    if (mod(d, "cp_fenceproxy")) {
        decode_copy(d);
        return;
    }
    if (!mod(d, "replace") || !mod(d, "tile")) {
        decode_fail(d, "expected .replace.tile or .cp_fenceproxy");
    }
    int field = mod_of(d, COUNTED(fields));
    insn->space = (uint8_t)mod_space(d, SP_GENERIC);
    bool whole = mod(d, "b1024");
    unsigned type = mod_type(d);
    if (field < 0 || !whole || type != (field == F_ADDRESS || field == F_STRIDE ? T_B64 : T_B32)) {
        decode_fail(d, "there is no form for this field and type");
    }
    bool indexed = is_indexed((uint32_t)field);
    need_operands(d, 2 + indexed, 2 + indexed);
    insn->tensor_map.field = (uint8_t)field;
    insn->tensor_map.dimension = indexed ? (uint32_t)immediate(d, &d->op[1]) : 0;
    emit(d, src(d, &d->op[1 + indexed], type));
    emit_address(d, &d->op[0]);
    insn->fn = exec_replace;
}
