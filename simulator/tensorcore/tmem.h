/* Tensor memory of one CTA, 128 lanes by 512 columns of 32 bits: allocation, and the data movement of
 * tcgen05.ld, .st, .cp and .shift. An address is lane << 16 | column. */
#ifndef TENSOR_TMEM_H
#define TENSOR_TMEM_H

#include <stdbool.h>
#include <stdint.h>

#include "descriptor.h"

enum {
    TMEM_LANES = 128,
    TMEM_COLUMNS = 512,
    TMEM_QUARTER_LANES = 32,
    TMEM_UNIT_COLUMNS = 32, /* allocation granularity */
    TMEM_UNITS = TMEM_COLUMNS / TMEM_UNIT_COLUMNS,
};

static inline int tmem_lane(uint32_t address) {
    return (int)(address >> 16);
}
static inline int tmem_column(uint32_t address) {
    return (int)(address & 0xffff);
}
static inline uint32_t tmem_address(int lane, int column) {
    return (uint32_t)lane << 16 | (uint32_t)column;
}

struct tmem {
    uint32_t word[TMEM_LANES][TMEM_COLUMNS];
    /* Columns of the allocation that starts at this unit; 0: none starts here. */
    uint16_t start_columns[TMEM_UNITS];
    /* 1 + first unit of the allocation that this unit belongs to; 0: free. */
    uint8_t owner[TMEM_UNITS];
    uint8_t cta_group; /* .cta_group of this CTA's tcgen05 instructions, 1 or 2; 0: none so far */
    bool permit_relinquished;
};

/* All columns free, filled with a conspicuous NaN, 0xfff7dead. */
void tmem_init(struct tmem *t);

enum tmem_alloc_result { TMEM_ALLOC_OK, TMEM_ALLOC_WAIT, TMEM_ALLOC_ILLEGAL };

/* tcgen05.alloc: *address becomes the lowest place with enough free columns. TMEM_ALLOC_WAIT: there is none,
 * hardware would block. TMEM_ALLOC_ILLEGAL: with a reason. */
enum tmem_alloc_result tmem_alloc(struct tmem *t, uint32_t columns, uint32_t *address, struct tc_why *why);
bool tmem_dealloc(struct tmem *t, uint32_t address, uint32_t columns, struct tc_why *why);
bool tmem_relinquish(struct tmem *t, struct tc_why *why);
/* At CTA exit: false, with the columns in the reason, if some are still allocated. */
bool tmem_check_exit(const struct tmem *t, struct tc_why *why);
/* False if `cta_group` differs from the CTA's earlier instructions: a kernel must use one throughout. */
bool tmem_check_cta_group(struct tmem *t, int cta_group, struct tc_why *why);

/* A rectangle of tensor memory: `lanes` lanes from first_lane on in each quarter of the mask `quarters` (bit q:
 * lanes 32 q to 32 q + 31), `columns` columns from `column` on. */
struct tmem_region {
    uint8_t quarters;
    uint8_t first_lane, lanes; /* within a quarter */
    uint16_t column, columns;
};
bool tmem_check_region(const struct tmem *t, const struct tmem_region *r, const char *what, struct tc_why *why);

/* ---- tcgen05.ld / tcgen05.st ---- */
enum tmem_ld_shape { TMEM_32X32B, TMEM_16X64B, TMEM_16X128B, TMEM_16X256B, TMEM_16X32BX2 };

struct tmem_access {
    enum tmem_ld_shape shape;
    int num;   /* .x1 ... .x128 */
    bool pack; /* .pack::16b of ld, .unpack::16b of st */
    uint32_t address;
    uint32_t half_split; /* immHalfSplitoff of .16x32bx2 */
};

enum { TMEM_MAX_REGISTERS = 128, TMEM_MAX_REGIONS = 2 };

/* Registers per thread; 0: this combination of shape and num does not exist. */
int tmem_registers(enum tmem_ld_shape shape, int num);
/* Checks bounds, lane alignment, the warp's quarter (warp index % 4) and allocation. Returns the number of
 * regions accessed, or 0 with a reason. */
int tmem_check_access(const struct tmem *t, const struct tmem_access *access, int warp_in_warpgroup,
                      struct tmem_region regions[TMEM_MAX_REGIONS], struct tc_why *why);
/* registers[r][thread]. Only for accesses that have passed tmem_check_access. */
void tmem_load(const struct tmem *t, const struct tmem_access *access, uint32_t registers[][32]);
void tmem_store(struct tmem *t, const struct tmem_access *access, const uint32_t registers[][32]);

/* ---- tcgen05.cp ---- */
enum tmem_cp_shape {
    TMEM_CP_128X256B,
    TMEM_CP_4X256B,
    TMEM_CP_128X128B,
    TMEM_CP_64X128B_02_13,
    TMEM_CP_64X128B_01_23,
    TMEM_CP_32X128B_WARPX4,
    TMEM_CP_SHAPES,
};
enum tmem_cp_format { TMEM_CP_PLAIN, TMEM_CP_B6X16_P32, TMEM_CP_B4X16_P64 };

struct tmem_cp {
    enum tmem_cp_shape shape;
    enum tmem_cp_format format; /* source of .b8x16 decompression */
    uint32_t address;
    struct tc_matrix_descriptor source;
};

enum { TMEM_CP_MAX_CHUNKS = 256 };

/* Lists the 16-byte chunks to read, in the order [row * chunks_per_row + j], and the region to write. Returns
 * the number of chunks, or 0 with a reason. */
int tmem_check_cp(const struct tmem *t, const struct tmem_cp *cp, uint32_t smem_bytes,
                  uint32_t chunks[TMEM_CP_MAX_CHUNKS], struct tmem_region *region, struct tc_why *why);
/* `data`: the chunks' bytes in that order (tc_cp_read). */
void tmem_cp_write(struct tmem *t, const struct tmem_cp *cp, const uint8_t *data);

/* ---- tcgen05.shift.down: in 8 columns, lanes 1-31 of a quarter move to lanes 0-30 ---- */
bool tmem_check_shift(const struct tmem *t, uint32_t address, struct tmem_region *region, struct tc_why *why);
void tmem_shift_down(struct tmem *t, uint32_t address);

#endif
