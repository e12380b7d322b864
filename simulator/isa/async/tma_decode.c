/* Decodes cp.async.bulk.tensor and cp.reduce.async.bulk.tensor, with the modes that each chip supports (PTX
 * ISA, Data Movement: cp.async.bulk.tensor). */
#include "async/bulk.h"
#include "async_decode.h"
#include "ptx/ir.h"

enum { M_TILE, M_GATHER4, M_SCATTER4, M_IM2COL, M_IM2COL_W, M_IM2COL_W_128, M_IM2COL_NO_OFFSETS };
static const char *const modes[] = {"tile",      "tile::gather4",  "tile::scatter4", "im2col",
                                    "im2col::w", "im2col::w::128", "im2col_no_offs"};

/* The operand [map, {coordinates}]. */
static void emit_coordinates(struct decoder *d, const struct operand_text *tensor, int wanted) {
    d->insn->tensor_copy.coordinates = (uint8_t)d->nout;
    if (tensor->kind != PO_ADDRESS || tensor->count != 2 ||
        emit_vector(d, &tensor->sub[1], false, T_S32) != wanted) {
        decode_fail(d, "a tensor operand needs its map and %d coordinates", wanted);
    }
}

static int extras_of(int mode, int rank) {
    return mode == M_IM2COL ? rank - 2 : mode == M_IM2COL_W ? 2 : 0;
}

static void emit_extras(struct decoder *d, const struct operand_text *info, int wanted) {
    int count = emit_vector(d, info, false, T_U16);
    if (count != wanted) {
        decode_fail(d, "%d numbers for im2col; expected %d", count, wanted);
    }
    d->insn->tensor_copy.extras = (uint8_t)wanted;
}

/* True for sm_100a, sm_103a, sm_110a and their families, not for RTX 50. */
static bool has_data_center_copies(const struct module *module) {
    const char last = module->target[strlen(module->target) - 1];
    return module->sm >= 100 && module->sm < 120 && (last == 'a' || last == 'f');
}

static void check_mode(struct decoder *d, int mode, int rank, bool store, unsigned to) {
    const struct module *module = d->parser->module;
    bool rows = mode == M_GATHER4 || mode == M_SCATTER4, columns = mode >= M_IM2COL;
    if (mode == M_IM2COL_W_128) { /* the PTX ISA defines its halos only in a figure */
        decode_fail(d, ".im2col::w::128 is not supported");
    }
    if (store != (mode == M_SCATTER4 || mode == M_IM2COL_NO_OFFSETS) && mode != M_TILE) {
        decode_fail(d, "this mode is only for the other direction");
    }
    if ((rows && rank != 2) || (columns && rank < 3)) {
        decode_fail(d, "not a mode of %d dimensions", rank);
    }
    if ((mode == M_SCATTER4 || ((mode == M_GATHER4 || mode == M_IM2COL_W) && to == SP_SHARED_CLUSTER)) &&
        !has_data_center_copies(module)) {
        decode_fail(d, "not on %s: this mode needs sm_100a or its family", module->target);
    }
    if ((mode == M_GATHER4 || mode == M_IM2COL_W) && module->sm < 100) {
        decode_fail(d, "not on %s: this mode needs sm_100 or later", module->target);
    }
}

static void decode_store(struct decoder *d, int coordinates, bool hinted) {
    int64_t *offsets = take_offsets(d);
    d->insn->tensor_copy.offsets = offsets;
    need_operands(d, 2, 2 + hinted);
    emit_offset_address(d, &d->op[1], offsets);
    emit_offset_address(d, &d->op[0], offsets);
    emit_coordinates(d, &d->op[0], coordinates);
    d->insn->fn = exec_tensor_store;
}

static void decode_load(struct decoder *d, int coordinates, int extras, bool multicast, bool hinted) {
    int64_t *offsets = take_offsets(d);
    int operands = 3 + (extras > 0) + multicast, next = 3;
    d->insn->tensor_copy.offsets = offsets;
    d->insn->tensor_copy.multicast = multicast;
    need_operands(d, operands, operands + hinted);
    emit_offset_address(d, &d->op[0], offsets);
    emit_offset_address(d, &d->op[1], offsets);
    emit_offset_address(d, &d->op[2], offsets);
    const struct operand_text *info = extras > 0 ? &d->op[next++] : NULL;
    if (multicast) {
        emit(d, src(d, &d->op[next], T_U16));
    }
    emit_coordinates(d, &d->op[1], coordinates);
    if (info != NULL) {
        emit_extras(d, info, extras);
    }
    d->insn->fn = exec_tensor_load;
}

static void decode_tensor_prefetch(struct decoder *d, int rank, const uint8_t *places) {
    int named = mod_of(d, COUNTED(modes)), mode = named < 0 ? M_TILE : named;
    bool hinted = mod(d, "L2::cache_hint");
    if (rank == 0 || !mod(d, "L2") || mod_space(d, SP_GENERIC) != SP_GLOBAL) {
        decode_fail(d, "a tensor prefetch needs a rank and .L2.global");
    }
    check_mode(d, mode, rank, false, SP_GLOBAL);
    d->insn->tensor_copy.rank = (uint8_t)rank;
    d->insn->tensor_copy.mode = places[mode];
    int64_t *offsets = take_offsets(d);
    int extras = extras_of(mode, rank), operands = 1 + (extras > 0);
    d->insn->tensor_copy.offsets = offsets;
    need_operands(d, operands, operands + hinted);
    emit_offset_address(d, &d->op[0], offsets); /* fills the slot of a load's shared address */
    emit_offset_address(d, &d->op[0], offsets);
    emit_coordinates(d, &d->op[0], places[mode] == TENSOR_ROWS ? 1 + ROWS_AT_ONCE : rank);
    if (extras > 0) {
        emit_extras(d, &d->op[1], extras);
    }
    d->insn->fn = exec_tensor_prefetch;
}

void decode_bulk_tensor(struct decoder *d, bool reduces) {
    static const char *const ranks[] = {"1d", "2d", "3d", "4d", "5d"};
    static const uint8_t places[] = {TENSOR_TILE,     TENSOR_ROWS,     TENSOR_ROWS,  TENSOR_IM2COL,
                                     TENSOR_IM2COL_W, TENSOR_IM2COL_W, TENSOR_IM2COL};
    struct insn *insn = d->insn;
    if (mod(d, "prefetch")) {
        decode_tensor_prefetch(d, mod_of(d, COUNTED(ranks)) + 1, places);
        return;
    }
    int reduction = reduces ? decode_reduction(d) : REDUCE_NONE;
    int rank = mod_of(d, COUNTED(ranks)) + 1, named = mod_of(d, COUNTED(modes)),
        mode = named < 0 ? M_TILE : named;
    bool group = mod(d, "bulk_group"), barrier = mod(d, "mbarrier::complete_tx::bytes");
    bool multicast = mod(d, "multicast::cluster"), pair = mod(d, "cta_group::2");
    (void)mod(d, "cta_group::1");
    bool hinted = mod(d, "L2::cache_hint");
    unsigned to = mod_space(d, SP_GENERIC), from = mod_space(d, SP_GENERIC);
    if (rank == 0 || group == barrier || (reduces && (reduction == REDUCE_NONE || !group))) {
        decode_fail(d,
                    "expected a rank, either .bulk_group or .mbarrier::complete_tx::bytes, and for cp.reduce a "
                    "reduction and .bulk_group");
    }
    if (group ? to != SP_GLOBAL || from != SP_SHARED
              : (to != SP_SHARED && to != SP_SHARED_CLUSTER) || from != SP_GLOBAL) {
        decode_fail(d, group ? ".bulk_group needs a copy from .shared::cta to .global"
                             : "expected a copy from .global to shared memory");
    }
    check_mode(d, mode, rank, group, to);
    insn->tensor_copy.rank = (uint8_t)rank;
    insn->tensor_copy.mode = places[mode];
    insn->tensor_copy.reduction = (uint8_t)reduction;
    insn->tensor_copy.cta_group = pair ? 2 : 1;
    insn->tensor_copy.plain_types = d->parser->module->sm >= 120 && to == SP_SHARED_CLUSTER;
    int coordinates = places[mode] == TENSOR_ROWS ? 1 + ROWS_AT_ONCE : rank;
    if (group) {
        decode_store(d, coordinates, hinted);
    } else {
        decode_load(d, coordinates, extras_of(mode, rank), multicast, hinted);
    }
}
