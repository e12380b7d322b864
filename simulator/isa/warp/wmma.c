/* wmma (PTX ISA, Warp Level Matrix Instructions: wmma). A fragment's layout is unspecified in PTX; here it is
 * that of mma.sync, in tiles of 8 rows, as on the chips. .f16 has eight registers for A and B, whatever the
 * shape: those beyond the fragment repeat it. */
#include "isa/memory/lane_access.h"
#include "isa/opcodes.h"
#include "mma_sync.h"

enum part { PART_A, PART_B, PART_C, PART_D };
enum { HALF_REGS = 8, CHUNK_BITS = 128, MOST_COLUMNS = 32 };

/* Types in the order of element[]. */
static const char *const type_names[] = {"f16", "bf16", "tf32", "f32", "f64", "s8",
                                         "u8",  "s4",   "u4",   "b1",  "s32"};
enum wmma_type { W_F16, W_BF16, W_TF32, W_F32, W_F64, W_S8, W_U8, W_S4, W_U4, W_B1, W_S32, W_NONE };
static const struct {
    uint8_t bits;
    uint8_t format; /* enum tc_format; .f64 and .b1 have none */
} element[] = {{16, TC_F16}, {16, TC_BF16}, {32, TC_TF32}, {32, TC_F32}, {64, 0},     {8, TC_S8},
               {8, TC_U8},   {4, TC_S8},    {4, TC_U8},    {1, 0},       {32, TC_S32}};

/* Row and column of element i of thread t in C and D. */
static void place(int m, int t, int i, int *r, int *c) {
    *r = t / 4 + i / 2 % (m / 8) * 8;
    *c = t % 4 * 2 + i % 2 + i / 2 / (m / 8) * 8;
}

/* ---- wmma.load, wmma.store; op: registers, address, stride if there is one ---- */

/* Registers of a fragment of A or B without those that repeat others. */
static int unique_regs(int rows, int k, int bits) {
    return bits == 64 ? 1 : rows / 8 * (k * bits / CHUNK_BITS);
}

struct matrix_memory {
    uint64_t base[LANES], stride[LANES]; /* stride: elements */
    int bits;
};

/* Loads or stores element (major, minor) of each lane, or as many as `bytes` hold along minor. */
static enum next memory(struct run *run, const struct matrix_memory *m, const int major[LANES],
                        const int minor[LANES], uint32_t bytes, bool write, uint64_t values[LANES]) {
    uint64_t addresses[LANES];
    for (int t = 0; t < LANES; t++) {
        addresses[t] =
            m->base[t] + ((uint64_t)major[t] * m->stride[t] + (uint64_t)minor[t]) * (uint64_t)m->bits / 8;
    }
    return lane_access(run, run->insn->space, addresses, ALL_LANES, bytes, write, values);
}

static struct matrix_memory memory_of(const struct run *run, const struct insn *insn, int regs, int least) {
    struct matrix_memory m;
    for (int t = 0; t < LANES; t++) {
        m.base[t] = lane_u64(run, insn->op[regs], t) + (uint64_t)insn->offset;
        m.stride[t] = insn->nop > regs + 1 ? lane_u32(run, insn->op[regs + 1], t) : (uint64_t)least;
    }
    m.bits = insn->matrix.packing;
    return m;
}

static enum next exec_load_operand(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct mma_form *form = insn->matrix.form;
    const bool along_k = (insn->matrix.byte_form == PART_A) != insn->matrix.transposed;
    const int rows = insn->matrix.byte_form == PART_A ? form->m : form->n, groups = rows / 8;
    const int bits = insn->matrix.packing, regs = insn->matrix.count,
              unique = unique_regs(rows, form->rule.k, bits);
    const struct matrix_memory m = memory_of(run, insn, regs, along_k ? form->rule.k : rows);
    const int word = bits == 64 ? 64 : 32, pieces = along_k ? 1 : word / bits;
    (void)mask;
    for (int reg = 0; reg < unique; reg++) {
        uint64_t values[LANES], whole[LANES] = {0};
        for (int piece = 0; piece < pieces; piece++) {
            int r[LANES], k[LANES];
            for (int t = 0; t < LANES; t++) {
                r[t] = t / 4 + reg % groups * 8;
                k[t] = (reg / groups * CHUNK_BITS + t % 4 * word) / bits + piece;
            }
            if (memory(run, &m, along_k ? r : k, along_k ? k : r, (uint32_t)(along_k ? word : bits) / 8, false,
                       values) == FAIL) {
                return FAIL;
            }
            for (int t = 0; t < LANES; t++) {
                whole[t] |= values[t] << piece * bits;
            }
        }
        for (int to = reg; to < regs; to += unique) {
            for (int t = 0; t < LANES; t++) {
                if (bits == 64) {
                    ((uint64_t *)row(run, insn->op[to]))[t] = whole[t];
                } else {
                    ((uint32_t *)row(run, insn->op[to]))[t] = (uint32_t)whole[t];
                }
            }
        }
    }
    return NEXT;
}

static enum next move_sums(struct run *run, const struct insn *insn, bool write) {
    const struct mma_form *form = insn->matrix.form;
    const bool by_row = !insn->matrix.transposed;
    const int bits = insn->matrix.packing, regs = insn->matrix.count, of_reg = bits == 16 ? 2 : 1;
    const struct matrix_memory m = memory_of(run, insn, regs, by_row ? form->n : form->m);
    for (int i = 0; i < regs * of_reg; i++) {
        uint64_t values[LANES];
        int r[LANES], c[LANES];
        uint8_t *lanes = row(run, insn->op[i / of_reg]);
        const int size = bits / 8, skip = i % of_reg * size, step = bits == 64 ? 8 : 4;
        for (int t = 0; t < LANES; t++) {
            place(form->m, t, i, &r[t], &c[t]);
            values[t] = 0;
            memcpy(&values[t], lanes + t * step + skip, (size_t)size);
        }
        if (memory(run, &m, by_row ? r : c, by_row ? c : r, (uint32_t)size, write, values) == FAIL) {
            return FAIL;
        }
        for (int t = 0; !write && t < LANES; t++) {
            memcpy(lanes + t * step + skip, &values[t], (size_t)size);
        }
    }
    return NEXT;
}

static enum next exec_load_sums(struct run *run, const struct insn *insn, uint32_t mask) {
    (void)mask;
    return move_sums(run, insn, false);
}

static enum next exec_store_sums(struct run *run, const struct insn *insn, uint32_t mask) {
    (void)mask;
    return move_sums(run, insn, true);
}

/* ---- wmma.mma ---- */

static void gather_sums(const struct run *run, const struct insn *insn, int first,
                        uint32_t d[MOST_ROWS][MOST_COLUMNS]) {
    const struct mma_form *form = insn->matrix.form;
    const int of_reg = form->c_half ? 2 : 1;
    for (int i = 0; i < form->c_regs * of_reg; i++) {
        for (int t = 0; t < LANES; t++) {
            int r, c;
            uint32_t bits = lane_u32(run, insn->op[first + i / of_reg], t);
            place(form->m, t, i, &r, &c);
            bits = form->c_half ? bits >> i % 2 * 16 & 0xffff : bits;
            d[r][c] = form->c_half && form->rule.d == TC_F32 ? tc_bits_of_f32(tc_to_f32(TC_F16, bits)) : bits;
        }
    }
}

/* wmma.mma of 16-bit floats, tf32 and 8-bit integers. */
static enum next exec_wmma(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct mma_form *form = insn->matrix.form;
    const int bits_a = tc_formats[form->rule.a].bits, of_reg = form->d_half ? 2 : 1;
    uint8_t a[MOST_ROWS][FRAGMENT_BYTES] = {{0}}, b[MOST_ROWS][FRAGMENT_BYTES] = {{0}};
    uint32_t d[MOST_ROWS][MOST_COLUMNS], *rows[MOST_ROWS];
    (void)mask;
    gather_fragment(run, insn, form->d_regs, unique_regs(form->m, form->rule.k, bits_a), form->m / 8, a);
    gather_fragment(run, insn, form->d_regs + form->a_regs, unique_regs(form->n, form->rule.k, bits_a),
                    form->n / 8, b);
    gather_sums(run, insn, form->d_regs + form->a_regs + form->b_regs, d);
    for (int i = 0; i < form->m; i++) {
        rows[i] = d[i];
    }
    const struct tc_mma_operands in = {
        .a = a[0], .b = b[0], .a_stride = FRAGMENT_BYTES, .b_stride = FRAGMENT_BYTES};
    tc_mma_tile(&form->rule, &in, rows, form->m, form->n, true);
    for (int i = 0; i < form->d_regs * of_reg; i++) {
        uint32_t *lanes = row(run, insn->op[i / of_reg]);
        for (int t = 0; t < LANES; t++) {
            int r, c;
            place(form->m, t, i, &r, &c);
            uint32_t bits = form->d_half && form->rule.d == TC_F32
                                ? tc_from_f32(TC_F16, tc_f32_of_bits(d[r][c]), TC_RN, 0, 0)
                                : d[r][c];
            lanes[t] = !form->d_half ? bits : i % 2 == 0 ? bits : lanes[t] | bits << 16;
        }
    }
    count_mma(run, form->m, form->n, form->rule.k);
    return NEXT;
}

/* ---- decoding ---- */

/* The next type in the order written. */
static enum wmma_type next_type(struct decoder *d) {
    for (int i = 0; i < d->nmods; i++) {
        for (int type = 0; !d->used[i] && type < W_NONE; type++) {
            if (token_is(&d->mods[i], type_names[type])) {
                d->used[i] = true;
                return (enum wmma_type)type;
            }
        }
    }
    return W_NONE;
}

/* Takes the shape; fails if wmma does not have it with this type of A and B. */
static void take_shape(struct decoder *d, struct mma_form *form) {
    static const char *const shapes[] = {"m16n16k16", "m8n32k16", "m32n8k16", "m16n16k8",
                                         "m8n8k4",    "m8n8k32",  "m8n8k128"};
    static const uint8_t sizes[][3] = {{16, 16, 16}, {8, 32, 16}, {32, 8, 16}, {16, 16, 8},
                                       {8, 8, 4},    {8, 8, 32},  {8, 8, 128}};
    const int shape = mod_of(d, COUNTED(shapes));
    if (shape < 0) {
        decode_fail(d, "expected a shape of wmma");
    }
    form->m = sizes[shape][0];
    form->n = sizes[shape][1];
    form->rule.k = sizes[shape][2];
}

static void check_shape(struct decoder *d, const struct mma_form *form, enum wmma_type type) {
    const int k = form->rule.k, wanted = type == W_TF32                 ? 8
                                         : type == W_F64                ? 4
                                         : type == W_S4 || type == W_U4 ? 32
                                         : type == W_B1                 ? 128
                                                                        : 16;
    if (k != wanted || type == W_NONE || type == W_F32 || type == W_S32) {
        decode_fail(d, "this shape and type do not go together");
    }
}

static int operand_regs(enum wmma_type type, int rows, int k) {
    return type == W_F16 ? HALF_REGS : unique_regs(rows, k, element[type].bits);
}

static int sum_regs(enum wmma_type type, const struct mma_form *form) {
    return form->m * form->n / LANES / (type == W_F16 ? 2 : 1);
}

static void decode_memory(struct decoder *d, bool store) {
    static const char *const parts[] = {"a", "b", "c", "d"};
    struct insn *insn = d->insn;
    struct mma_form *form = parse_take(d->parser, sizeof *form);
    const int part = mod_of(d, COUNTED(parts));
    const bool by_row = mod(d, "row"), by_column = !by_row && mod(d, "col");
    take_shape(d, form);
    insn->space = (uint8_t)mod_space(d, SP_GENERIC);
    const enum wmma_type type = next_type(d);
    const bool sums = part >= PART_C;
    if ((part == PART_D) != store || part < 0 || (!by_row && !by_column) || type == W_NONE ||
        (sums && type != W_F16 && type != W_F32 && type != W_S32 && type != W_F64)) {
        decode_fail(
            d, "expected wmma.load of a, b, c or wmma.store of d, a layout and a type that this matrix has");
    }
    if (!sums) {
        check_shape(d, form, type);
        if (element[type].bits < 8 && by_row != (part == PART_A)) {
            decode_fail(d, "elements of fewer than 8 bits have A by rows and B by columns");
        }
    }
    need_operands(d, 2, 3);
    const int regs =
        sums ? sum_regs(type, form) : operand_regs(type, part == PART_A ? form->m : form->n, form->rule.k);
    if (emit_vector(d, &d->op[store ? 1 : 0], !store, type == W_F64 ? T_F64 : T_B32) != regs) {
        decode_fail(d, "a fragment of this shape and type has %d registers", regs);
    }
    emit_address(d, &d->op[store ? 0 : 1]);
    if (d->nop == 3) {
        emit(d, src(d, &d->op[2], T_U32));
    }
    insn->cls = insn->space == SP_SHARED || insn->space == SP_SHARED_CLUSTER ? CL_MEM_SHARED : CL_MEM_GLOBAL;
    insn->matrix.form = form;
    insn->matrix.byte_form = (uint8_t)part;
    insn->matrix.count = (uint8_t)regs;
    insn->matrix.packing = element[type].bits;
    insn->matrix.transposed = by_column;
    insn->fn = store ? exec_store_sums : sums ? exec_load_sums : exec_load_operand;
}

/* Chooses the execution by the type of A. */
static void set_rule(struct decoder *d, struct mma_form *form, enum wmma_type a, enum wmma_type b) {
    const bool integers = a >= W_S8 && a <= W_U4;
    const int k = form->rule.k, bits = element[a].bits;
    if (a == W_F64 || a == W_B1) {
        d->insn->fn = a == W_F64 ? exec_mma_f64 : exec_mma_b1;
        return;
    }
    const enum tc_format sum = integers ? TC_S32 : form->d_half && form->c_half ? TC_F16 : TC_F32;
    form->rule = tc_rule_mma_sync(element[a].format, element[b].format, sum, k);
    form->rule.saturate = integers && mod(d, "satfinite");
    form->nibbles = bits == 4;
    d->insn->fn = form->nibbles ? exec_mma : exec_wmma;
}

static void decode_product(struct decoder *d) {
    struct mma_form *form = parse_take(d->parser, sizeof *form);
    const bool layouts = (mod(d, "row") || mod(d, "col")) && (mod(d, "row") || mod(d, "col"));
    take_shape(d, form);
    enum wmma_type types[4];
    for (int i = 0; i < 4; i++) {
        types[i] = next_type(d);
    }
    if (types[2] == W_NONE) { /* .f16 is written with the types of D and C alone */
        types[3] = types[1];
        types[1] = types[2] = W_F16;
    }
    const enum wmma_type to = types[0], a = types[1], b = types[2], from = types[3];
    const bool integers = a >= W_S8 && a <= W_B1;
    const enum wmma_type sum = integers ? W_S32 : a == W_F64 ? W_F64 : W_F32;
    const bool halves = a == W_F16; /* C and D may be .f16 */
    check_shape(d, form, a);
    if (!layouts || to == W_NONE || from == W_NONE || (to != sum && (!halves || to != W_F16)) ||
        (from != sum && (!halves || from != W_F16)) ||
        (a != b && (!integers || element[a].bits != element[b].bits))) {
        decode_fail(d, "these types do not go together");
    }
    form->both = a == W_B1 && mod(d, "and");
    if (a == W_B1 && (form->both == mod(d, "xor") || !mod(d, "popc"))) {
        decode_fail(d, "expected .xor.popc or .and.popc");
    }
    form->rounding = (uint8_t)(a == W_F64 ? mod_rounding(d) : RND_NONE);
    form->d_half = to == W_F16;
    form->c_half = from == W_F16;
    form->a_regs = operand_regs(a, form->m, form->rule.k);
    form->b_regs = operand_regs(b, form->n, form->rule.k);
    form->d_regs = sum_regs(to, form);
    form->c_regs = sum_regs(from, form);
    set_rule(d, form, a, b);
    need_operands(d, 4, 4);
    emit_fragments(d, form, a == W_F64 ? T_F64 : T_B32);
    d->insn->matrix.form = form;
}

void decode_wmma(struct decoder *d) {
    if (!mod(d, "sync") || !mod(d, "aligned")) {
        decode_fail(d, "expected .sync.aligned");
    }
    d->insn->aligned = 1;
    if (mod(d, "mma")) {
        decode_product(d);
    } else if (mod(d, "load")) {
        decode_memory(d, false);
    } else if (mod(d, "store")) {
        decode_memory(d, true);
    } else {
        decode_fail(d, "expected wmma.load, wmma.store or wmma.mma");
    }
}
