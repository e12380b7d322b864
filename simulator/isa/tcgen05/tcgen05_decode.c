/* Decodes the tcgen05 mnemonics (PTX ISA, TensorCore 5th Generation Family Instructions). */
#include "isa/opcodes.h"
#include "tcgen05_state.h"

static struct tensor_form *new_form(struct decoder *d) {
    struct tensor_form *form = parse_take(d->parser, sizeof *form);
    memset(form, 0, sizeof *form);
    d->insn->tcgen05.form = form;
    return form;
}

/* Emits an address's base row and puts its constant into the form. */
static void address(struct decoder *d, struct tensor_form *form, const struct operand_text *written) {
    int at = d->nout;
    int64_t offset;
    struct operand base = address_base(d, written, &offset);
    emit(d, base);
    if (at < MAX_ADDRESS_OPERANDS) {
        form->offset[at] = offset;
    } else if (offset != 0) {
        decode_fail(d, "an address with an offset after more than 8 operands is not supported");
    }
}

static int cta_group(struct decoder *d) {
    static const char *const names[] = {"cta_group::1", "cta_group::2"};
    int found = mod_of(d, COUNTED(names));
    if (found < 0) {
        decode_fail(d, "expected .cta_group::1 or .cta_group::2");
    }
    return found + 1;
}

static void aligned(struct decoder *d) {
    if (!mod(d, "sync") || !mod(d, "aligned")) {
        decode_fail(d, "expected .sync.aligned");
    }
    d->insn->aligned = 1;
}

static void need_mod(struct decoder *d, const char *name) {
    if (!mod(d, name)) {
        decode_fail(d, "expected .%s", name);
    }
}

/* ---- allocation ---- */

static void decode_relinquish(struct decoder *d) {
    new_form(d)->cta_group = cta_group(d);
    aligned(d);
    need_operands(d, 0, 0);
}

static void decode_alloc(struct decoder *d) {
    static const char *const spaces[] = {"shared::cta", "shared"};
    struct tensor_form *form = new_form(d);
    form->cta_group = cta_group(d);
    aligned(d);
    need_mod(d, "b32");
    need_operands(d, 2, 2);
    emit(d, src(d, &d->op[1], T_U32));
    (void)mod_of(d, COUNTED(spaces));
    address(d, form, &d->op[0]);
}

static void decode_dealloc(struct decoder *d) {
    new_form(d)->cta_group = cta_group(d);
    aligned(d);
    need_mod(d, "b32");
    need_operands(d, 2, 2);
    emit(d, src(d, &d->op[1], T_U32));
    emit(d, src(d, &d->op[0], T_U32));
}

/* ---- ld, st, wait, fence ---- */

static void decode_access(struct decoder *d, bool load) {
    static const char *const shapes[] = {"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"};
    static const char *const numbers[] = {"x1", "x2", "x4", "x8", "x16", "x32", "x64", "x128"};
    struct tensor_form *form = new_form(d);
    aligned(d);
    int shape = mod_of(d, COUNTED(shapes)), number = mod_of(d, COUNTED(numbers));
    if (shape < 0 || number < 0) {
        decode_fail(d, "expected a shape and a number, e.g. .32x32b.x1");
    }
    form->access.shape = (enum tmem_ld_shape)shape;
    form->access.num = 1 << number;
    form->access.pack = mod(d, load ? "pack::16b" : "unpack::16b");
    need_mod(d, "b32");
    bool split = form->access.shape == TMEM_16X32BX2;
    need_operands(d, split ? 3 : 2, split ? 3 : 2);
    const struct operand_text *at = &d->op[load ? 1 : 0], *registers = &d->op[load ? 0 : split ? 2 : 1];
    if (split) {
        form->access.half_split = (uint32_t)immediate(d, &d->op[load ? 2 : 1]);
    }
    int count = emit_vector(d, registers, load, T_B32);
    if (count != tmem_registers(form->access.shape, form->access.num)) {
        decode_fail(d, "%d registers; expected %d", count,
                    tmem_registers(form->access.shape, form->access.num));
    }
    int64_t offset;
    emit(d, address_base(d, at, &offset));
    form->access.address = (uint32_t)offset; /* the constant; execution adds the base */
}

static void decode_load(struct decoder *d) {
    decode_access(d, true);
}

static void decode_store(struct decoder *d) {
    decode_access(d, false);
}

static void decode_by_warp(struct decoder *d) {
    aligned(d);
    need_operands(d, 0, 0);
}

static void decode_bare(struct decoder *d) {
    need_operands(d, 0, 0);
}

/* ---- mma ---- */

static void decode_collector(struct decoder *d) {
    static const char *const names[] = {
        "collector::a::fill",  "collector::a::use",  "collector::a::lastuse",  "collector::a::discard",
        "collector::b0::fill", "collector::b0::use", "collector::b0::lastuse", "collector::b0::discard",
        "collector::b1::fill", "collector::b1::use", "collector::b1::lastuse", "collector::b1::discard",
        "collector::b2::fill", "collector::b2::use", "collector::b2::lastuse", "collector::b2::discard",
        "collector::b3::fill", "collector::b3::use", "collector::b3::lastuse", "collector::b3::discard",
        "collector::a"};
    (void)mod_of(d, COUNTED(names)); /* only hints; the hardware decides about reuse */
}

/* Number of scales per row that the mnemonic states; 0: the kind's default. */
static int scale_vector(struct decoder *d, enum tc_kind kind) {
    static const char *const names[] = {"scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16",
                                        "block32"};
    static const int scales[] = {1, 2, 4, 4, 0};
    int found = mod_of(d, COUNTED(names));
    if (found < 0) {
        return 0;
    }
    return found == 4 ? (kind == TC_KIND_MXF8F6F4 ? 1 : 2) : scales[found];
}

static void decode_tensor_mma(struct decoder *d) {
    static const char *const kinds[] = {"kind::f16",      "kind::tf32", "kind::f8f6f4",  "kind::i8",
                                        "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4"};
    struct tensor_form *form = new_form(d);
    form->ws = mod(d, "ws");
    form->sparse = mod(d, "sp");
    if (form->sparse && form->ws) {
        decode_fail(d, ".ws with a sparse A is not supported: its data path layouts are in figures");
    }
    if (mod(d, "ashift")) {
        decode_fail(d, ".ashift is not supported");
    }
    form->cta_group = cta_group(d);
    int kind = mod_of(d, COUNTED(kinds));
    if (kind < 0) {
        decode_fail(d, "expected a kind, e.g. .kind::f16");
    }
    form->kind = (enum tc_kind)kind;
    bool scaled = form->kind >= TC_KIND_MXF8F6F4;
    if (mod(d, "block_scale") != scaled) {
        decode_fail(d, scaled ? "expected .block_scale" : ".block_scale does not go with this kind");
    }
    if (scaled) {
        form->scales = scale_vector(d, form->kind);
        if (form->ws || (form->scales == 0 && form->kind == TC_KIND_MXF4NVF4)) {
            decode_fail(d, form->ws ? ".ws has no block scaling" : "kind::mxf4nvf4 needs a scale vector size");
        }
    }
    decode_collector(d);
    int metadata = form->sparse ? 1 : 0; /* one more operand, after B */
    need_operands(d, metadata + (scaled ? 7 : 5), metadata + 7);
    address(d, form, &d->op[0]);
    form->a_in_tmem = d->op[1].kind == PO_ADDRESS;
    if (form->a_in_tmem) {
        address(d, form, &d->op[1]);
    } else {
        emit(d, src(d, &d->op[1], T_B64));
    }
    emit(d, src(d, &d->op[2], T_B64));
    emit(d, src(d, &d->op[3 + metadata], T_B32));
    int at = 4 + metadata;
    const struct operand_text *first = NULL, *second = NULL;
    uint32_t lanes = 0;
    if (scaled) {
        first = &d->op[at++];
        second = &d->op[at++];
    } else if (d->op[at].kind == PO_VECTOR) {
        first = elements(&d->op[at++], &lanes);
        form->has_disabled = true;
        if ((int)lanes != 4 * form->cta_group) {
            decode_fail(d, "disable-output-lane has %u elements; expected %d", lanes, 4 * form->cta_group);
        }
    }
    if (at >= d->nop) {
        decode_fail(d, "expected the operand enable-input-d");
    }
    emit(d, src(d, &d->op[at++], T_PRED));
    if (form->sparse) {
        address(d, form, &d->op[3]);
    }
    if (scaled) {
        address(d, form, first);
        address(d, form, second);
    }
    for (uint32_t i = 0; i < lanes; i++) {
        emit(d, src(d, &first[i], T_B32));
    }
    if (at < d->nop) {
        if (form->ws) {
            decode_fail(d, "a zero-column mask is not supported");
        }
        if (form->kind != TC_KIND_F16 && form->kind != TC_KIND_TF32) {
            decode_fail(d, "scale-input-d is for kind::f16 and kind::tf32");
        }
        form->d_scale_log2 = (int)immediate(d, &d->op[at++]);
        if (form->d_scale_log2 < 0 || form->d_scale_log2 > 15) {
            decode_fail(d, "scale-input-d is %d; expected 0 to 15", form->d_scale_log2);
        }
    }
    need_operands(d, at, at);
}

/* ---- cp, shift, commit ---- */

static void decode_cp_to_tmem(struct decoder *d) {
    static const char *const shapes[] = {"128x256b", "4x256b", "128x128b", "64x128b", "32x128b"};
    static const char *const sources[] = {"b6x16_p32", "b4x16_p64"};
    struct tensor_form *form = new_form(d);
    form->cta_group = cta_group(d);
    int shape = mod_of(d, COUNTED(shapes));
    bool four = mod(d, "warpx4"), b02 = mod(d, "warpx2::02_13"), b01 = mod(d, "warpx2::01_23");
    if (shape < 0 || four != (shape == 4) || (b02 || b01) != (shape == 3) || (b02 && b01)) {
        decode_fail(d, "this shape and multicast do not go together");
    }
    form->cp_shape = shape == 3   ? (b02 ? TMEM_CP_64X128B_02_13 : TMEM_CP_64X128B_01_23)
                     : shape == 4 ? TMEM_CP_32X128B_WARPX4
                                  : (enum tmem_cp_shape)shape;
    if (mod(d, "b8x16")) {
        int source = mod_of(d, COUNTED(sources));
        if (source < 0) {
            decode_fail(d, "decompression without a source format");
        }
        form->cp_format = source ? TMEM_CP_B4X16_P64 : TMEM_CP_B6X16_P32;
    }
    need_operands(d, 2, 2);
    address(d, form, &d->op[0]);
    emit(d, src(d, &d->op[1], T_B64));
}

static void decode_shift(struct decoder *d) {
    struct tensor_form *form = new_form(d);
    form->cta_group = cta_group(d);
    need_mod(d, "down");
    need_operands(d, 1, 1);
    address(d, form, &d->op[0]);
}

static void decode_commit(struct decoder *d) {
    static const char *const spaces[] = {"shared::cluster", "shared::cta", "shared"};
    struct tensor_form *form = new_form(d);
    form->cta_group = cta_group(d);
    need_mod(d, "mbarrier::arrive::one");
    (void)mod_of(d, COUNTED(spaces));
    form->multicast = mod(d, "multicast::cluster");
    need_mod(d, "b64");
    need_operands(d, 1 + form->multicast, 1 + form->multicast);
    address(d, form, &d->op[0]);
    if (form->multicast) {
        emit(d, src(d, &d->op[1], T_U16));
    }
}

void decode_tcgen05(struct decoder *d) {
    static const struct {
        const char *name;
        void (*decode)(struct decoder *d);
        exec_fn fn;
    } operations[] = {{"alloc", decode_alloc, tensor_alloc},
                      {"dealloc", decode_dealloc, tensor_dealloc},
                      {"relinquish_alloc_permit", decode_relinquish, tensor_relinquish},
                      {"ld", decode_load, tensor_access},
                      {"st", decode_store, tensor_access},
                      {"wait::ld", decode_by_warp, tensor_wait_ld},
                      {"wait::st", decode_by_warp, tensor_wait_st},
                      {"fence::before_thread_sync", decode_bare, tensor_fence_before},
                      {"fence::after_thread_sync", decode_bare, tensor_fence_after},
                      {"mma", decode_tensor_mma, pipe_mma},
                      {"cp", decode_cp_to_tmem, pipe_cp},
                      {"shift", decode_shift, pipe_shift},
                      {"commit", decode_commit, pipe_commit}};
    if (d->parser->module->sm >= 120) {
        decode_fail(d, "sm_120 and later have no tensor memory");
    }
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        if (mod(d, operations[i].name)) {
            d->insn->fn = operations[i].fn;
            operations[i].decode(d);
            return;
        }
    }
    decode_fail(d, "expected an operation, e.g. .mma or .ld");
}
