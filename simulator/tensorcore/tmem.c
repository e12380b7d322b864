/* Tensor memory: allocation, and the data movement of tcgen05.ld, .st, .cp and .shift. */
#include "tmem.h"

void tmem_init(struct tmem *t) {
    memset(t, 0, sizeof *t);
    for (int lane = 0; lane < TMEM_LANES; lane++) {
        for (int column = 0; column < TMEM_COLUMNS; column++) {
            t->word[lane][column] = 0xfff7dead;
        }
    }
}

/* ---- allocation (PTX ISA, Tensor Memory Allocation and Management Instructions) ---- */

static bool legal_columns(uint32_t columns) {
    return columns >= TMEM_UNIT_COLUMNS && columns <= TMEM_COLUMNS && !(columns & (columns - 1));
}

enum tmem_alloc_result tmem_alloc(struct tmem *t, uint32_t columns, uint32_t *address, struct tc_why *why) {
    if (!legal_columns(columns)) {
        tc_refuse(why, "tcgen05.alloc of %u columns: must be a power of two from 32 to 512", columns);
        return TMEM_ALLOC_ILLEGAL;
    }
    if (t->permit_relinquished) {
        tc_refuse(why, "tcgen05.alloc after this CTA executed tcgen05.relinquish_alloc_permit");
        return TMEM_ALLOC_ILLEGAL;
    }
    int units = (int)columns / TMEM_UNIT_COLUMNS;
    for (int first = 0; first + units <= TMEM_UNITS; first++) {
        int used = 0;
        for (int i = 0; i < units; i++) {
            used |= t->owner[first + i];
        }
        if (used) {
            continue;
        }
        memset(t->owner + first, first + 1, (size_t)units);
        t->start_columns[first] = (uint16_t)columns;
        *address = tmem_address(0, first * TMEM_UNIT_COLUMNS);
        return TMEM_ALLOC_OK;
    }
    return TMEM_ALLOC_WAIT;
}

bool tmem_dealloc(struct tmem *t, uint32_t address, uint32_t columns, struct tc_why *why) {
    int column = tmem_column(address), first = column / TMEM_UNIT_COLUMNS;
    if (!legal_columns(columns)) {
        return tc_refuse(why, "tcgen05.dealloc of %u columns: must be a power of two from 32 to 512", columns);
    }
    if (column >= TMEM_COLUMNS || column % TMEM_UNIT_COLUMNS || tmem_lane(address) ||
        !t->start_columns[first]) {
        return tc_refuse(
            why, "tcgen05.dealloc of address 0x%08x, which no tcgen05.alloc returned or which was freed",
            address);
    }
    if (t->start_columns[first] != columns) {
        return tc_refuse(why, "tcgen05.dealloc of %u columns at column %d, where %u were allocated", columns,
                         column, t->start_columns[first]);
    }
    t->start_columns[first] = 0;
    memset(t->owner + first, 0, columns / TMEM_UNIT_COLUMNS);
    return true;
}

bool tmem_relinquish(struct tmem *t, struct tc_why *why) {
    (void)why; /* repeating it is allowed */
    t->permit_relinquished = true;
    return true;
}

bool tmem_check_exit(const struct tmem *t, struct tc_why *why) {
    for (int unit = 0; unit < TMEM_UNITS; unit++) {
        if (t->start_columns[unit]) {
            return tc_refuse(why, "the CTA ends with %u columns of tensor memory allocated at column %d",
                             t->start_columns[unit], unit * TMEM_UNIT_COLUMNS);
        }
    }
    return true;
}

bool tmem_check_cta_group(struct tmem *t, int cta_group, struct tc_why *why) {
    if (t->cta_group && t->cta_group != cta_group) {
        return tc_refuse(why, ".cta_group::%d after .cta_group::%d: a kernel must use one of them throughout",
                         cta_group, t->cta_group);
    }
    t->cta_group = (uint8_t)cta_group;
    return true;
}

bool tmem_check_region(const struct tmem *t, const struct tmem_region *r, const char *what,
                       struct tc_why *why) {
    int end = r->column + r->columns;
    if (end > TMEM_COLUMNS) {
        return tc_refuse(why, "%s reaches column %d of tensor memory, which has 512", what, end - 1);
    }
    for (int column = r->column; column < end; column++) {
        if (!t->owner[column / TMEM_UNIT_COLUMNS]) {
            return tc_refuse(why, "%s uses column %d of tensor memory, which is not allocated", what, column);
        }
    }
    return true;
}

/* ---- ld and st (PTX ISA, Data Movement Shape; Tensor Memory and Register Load/Store Instructions) ---- */

static const char *const tmem_ld_shape_names[] = {"32x32b", "16x64b", "16x128b", "16x256b", "16x32bx2"};

/* Indexed by shape: registers and columns of .x1, and the largest number of repetitions. */
static const struct {
    uint8_t registers, columns, largest;
} ld_shapes[] = {
    [TMEM_32X32B] = {1, 1, 128}, [TMEM_16X64B] = {1, 2, 128},   [TMEM_16X128B] = {2, 4, 64},
    [TMEM_16X256B] = {4, 8, 32}, [TMEM_16X32BX2] = {1, 1, 128},
};

int tmem_registers(enum tmem_ld_shape shape, int num) {
    if (num < 1 || num > ld_shapes[shape].largest || (num & (num - 1))) {
        return 0;
    }
    return num * ld_shapes[shape].registers;
}

int tmem_check_access(const struct tmem *t, const struct tmem_access *access, int warp_in_warpgroup,
                      struct tmem_region regions[TMEM_MAX_REGIONS], struct tc_why *why) {
    const char *name = tmem_ld_shape_names[access->shape];
    int lane = tmem_lane(access->address), lanes = access->shape == TMEM_32X32B ? 32 : 16;
    int columns = ld_shapes[access->shape].columns * access->num * (access->pack ? 2 : 1);
    if (!tmem_registers(access->shape, access->num)) {
        tc_refuse(why, ".%s.x%d does not exist", name, access->num);
        return 0;
    }
    if (lane / TMEM_QUARTER_LANES != warp_in_warpgroup) {
        tc_refuse(why, ".%s at lane %d: warp %d of a warpgroup reaches lanes %d to %d only", name, lane,
                  warp_in_warpgroup, warp_in_warpgroup * 32, warp_in_warpgroup * 32 + 31);
        return 0;
    }
    if (lane % lanes) {
        tc_refuse(why, ".%s at lane %d: the lane must be a multiple of %d", name, lane, lanes);
        return 0;
    }
    if (access->half_split >= TMEM_COLUMNS) {
        tc_refuse(why, ".%s with an immHalfSplitoff of %u", name, access->half_split);
        return 0;
    }
    int count = access->shape == TMEM_16X32BX2 ? 2 : 1;
    for (int i = 0; i < count; i++) {
        int column = tmem_column(access->address) + (i ? (int)access->half_split : 0);
        if (column + columns > TMEM_COLUMNS) {
            tc_refuse(why, ".%s.x%d from column %d reaches column %d of tensor memory, which has 512", name,
                      access->num, column, column + columns - 1);
            return 0;
        }
        regions[i] = (struct tmem_region){(uint8_t)(1 << warp_in_warpgroup), (uint8_t)(lane % 32),
                                          (uint8_t)lanes, (uint16_t)column, (uint16_t)columns};
        if (!tmem_check_region(t, &regions[i], name, why)) {
            return 0;
        }
    }
    return count;
}

/* Lane and column of register r of a thread; with `pack` its 16-bit halves are in `column` and `column` + 1. */
static void tmem_place(const struct tmem_access *access, int thread, int r, int *lane, int *column) {
    int row = 0, word = 0, offset = 0; /* `word` counts 32-bit units of the fragment */
    switch (access->shape) {
    case TMEM_32X32B:
        row = thread;
        word = r;
        break;
    case TMEM_16X64B: /* odd threads hold lanes 8 to 15, pairs of threads the two words */
        row = thread / 4 + thread % 2 * 8;
        word = 2 * r + thread / 2 % 2;
        break;
    case TMEM_16X128B:
        row = thread / 4 + r % 2 * 8;
        word = r / 2 * 4 + thread % 4;
        break;
    case TMEM_16X256B:
        row = thread / 4 + r / 2 % 2 * 8;
        word = r / 4 * 8 + thread % 4 * 2 + r % 2;
        break;
    case TMEM_16X32BX2:
        row = thread % 16;
        word = r;
        offset = thread < 16 ? 0 : (int)access->half_split;
        break;
    }
    *lane = tmem_lane(access->address) + row;
    *column = tmem_column(access->address) + offset + word * (access->pack ? 2 : 1);
}

void tmem_load(const struct tmem *t, const struct tmem_access *access, uint32_t registers[][32]) {
    int count = tmem_registers(access->shape, access->num), lane, column;
    for (int thread = 0; thread < 32; thread++) {
        for (int r = 0; r < count; r++) {
            tmem_place(access, thread, r, &lane, &column);
            const uint32_t *word = &t->word[lane][column];
            registers[r][thread] = access->pack ? (word[0] & 0xffff) | word[1] << 16 : word[0];
        }
    }
}

void tmem_store(struct tmem *t, const struct tmem_access *access, const uint32_t registers[][32]) {
    int count = tmem_registers(access->shape, access->num), lane, column;
    for (int thread = 0; thread < 32; thread++) {
        for (int r = 0; r < count; r++) {
            tmem_place(access, thread, r, &lane, &column);
            uint32_t *word = &t->word[lane][column], value = registers[r][thread];
            word[0] = access->pack ? value & 0xffff : value;
            if (access->pack) {
                word[1] = value >> 16;
            }
        }
    }
}

/* ---- cp (PTX ISA, tcgen05.cp) ---- */

static const struct {
    const char *name;
    uint8_t rows, row_chunks, lane_copies;
} cp_shapes[TMEM_CP_SHAPES] = {
    [TMEM_CP_128X256B] = {"128x256b", 128, 2, 1},
    [TMEM_CP_4X256B] = {"4x256b", 4, 2, 1},
    [TMEM_CP_128X128B] = {"128x128b", 128, 1, 1},
    [TMEM_CP_64X128B_02_13] = {"64x128b.warpx2::02_13", 64, 1, 2},
    [TMEM_CP_64X128B_01_23] = {"64x128b.warpx2::01_23", 64, 1, 2},
    [TMEM_CP_32X128B_WARPX4] = {"32x128b.warpx4", 32, 1, 4},
};

int tmem_check_cp(const struct tmem *t, const struct tmem_cp *cp, uint32_t smem_bytes,
                  uint32_t chunks[TMEM_CP_MAX_CHUNKS], struct tmem_region *region, struct tc_why *why) {
    const char *name = cp_shapes[cp->shape].name;
    int rows = cp_shapes[cp->shape].rows, across = cp_shapes[cp->shape].row_chunks,
        lane = tmem_lane(cp->address);
    bool four = cp->shape == TMEM_CP_4X256B;
    if (cp->format != TMEM_CP_PLAIN) {
        tc_unmodelled(why, "tcgen05.cp with decompression (.b8x16) is not modelled");
        return 0;
    }
    if (four ? lane >= TMEM_QUARTER_LANES : lane != 0) {
        tc_refuse(why, "tcgen05.cp.%s to lane %d: the destination's lane must be %s", name, lane,
                  four ? "below 32" : "0");
        return 0;
    }
    int column = tmem_column(cp->address);
    if (column >= TMEM_COLUMNS) {
        tc_refuse(why, "tcgen05.cp.%s to column %d of tensor memory, which has 512", name, column);
        return 0;
    }
    *region = (struct tmem_region){15, (uint8_t)lane, four ? 1 : 32, (uint16_t)column, (uint16_t)(across * 4)};
    if (!tmem_check_region(t, region, "tcgen05.cp", why)) {
        return 0;
    }
    struct tc_operand_shape shape = {TC_U8, rows, across * TC_CHUNK_BYTES, false, false};
    uint32_t all[TC_MAX_CHUNKS];
    int count = tc_operand_chunks(&cp->source, &shape, smem_bytes, all, why);
    if (count < 0) {
        return 0;
    }
    memcpy(chunks, all, (size_t)count * sizeof *all);
    return count;
}

/* The lane that receives copy number `copy` of a source row. 02_13: rows 0-31 go to quarters 0 and 2, rows
 * 32-63 to 1 and 3. 01_23: rows 0-31 go to quarters 0 and 1, rows 32-63 to 2 and 3. 4x256b: one row per
 * quarter, at the address's lane. */
static int cp_lane(enum tmem_cp_shape shape, int row, int copy) {
    switch (shape) {
    case TMEM_CP_4X256B:
        return row * TMEM_QUARTER_LANES;
    case TMEM_CP_64X128B_02_13:
        return row + copy * 64;
    case TMEM_CP_64X128B_01_23:
        return row % 32 + row / 32 * 64 + copy * 32;
    default:
        return row + copy * TMEM_QUARTER_LANES;
    }
}

void tmem_cp_write(struct tmem *t, const struct tmem_cp *cp, const uint8_t *data) {
    size_t bytes = (size_t)cp_shapes[cp->shape].row_chunks * TC_CHUNK_BYTES;
    for (int row = 0; row < cp_shapes[cp->shape].rows; row++) {
        for (int copy = 0; copy < cp_shapes[cp->shape].lane_copies; copy++) {
            int lane = tmem_lane(cp->address) + cp_lane(cp->shape, row, copy);
            memcpy(&t->word[lane][tmem_column(cp->address)], data + (size_t)row * bytes, bytes);
        }
    }
}

/* ---- shift (PTX ISA, tcgen05.shift) ---- */

bool tmem_check_shift(const struct tmem *t, uint32_t address, struct tmem_region *region, struct tc_why *why) {
    int lane = tmem_lane(address), column = tmem_column(address);
    if (lane % TMEM_QUARTER_LANES || lane >= TMEM_LANES) {
        return tc_refuse(why, "tcgen05.shift at lane %d: the lane must be a multiple of 32 below 128", lane);
    }
    if (column + 8 > TMEM_COLUMNS) {
        return tc_refuse(why, "tcgen05.shift reaches column %d of tensor memory, which has 512", column + 7);
    }
    *region = (struct tmem_region){(uint8_t)(1 << lane / TMEM_QUARTER_LANES), 0, 32, (uint16_t)column, 8};
    return tmem_check_region(t, region, "tcgen05.shift", why);
}

void tmem_shift_down(struct tmem *t, uint32_t address) {
    for (int i = 0; i < TMEM_QUARTER_LANES - 1; i++) {
        memcpy(&t->word[tmem_lane(address) + i][tmem_column(address)],
               &t->word[tmem_lane(address) + i + 1][tmem_column(address)], 32);
    }
}
