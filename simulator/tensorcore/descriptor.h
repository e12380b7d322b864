/* Descriptors of the tensor-core instructions: shared-memory matrix descriptors of wgmma and tcgen05, and
 * instruction descriptors of tcgen05. A decoder returns false with a sentence that names the field if a value
 * is illegal. */
#ifndef TENSOR_DESCRIPTOR_H
#define TENSOR_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensorcore/mma/arith.h"
#include "tensorcore/mma/formats.h"

/* Why something was refused: one sentence without a full stop. `unmodelled`: it may be legal, but the simulator
 * does not implement it (K = 96, some shapes of a sparse A), which gives the verdict `incomplete`, not an
 * error. */
struct tc_why {
    bool unmodelled;
    char text[240];
};
/* Fills in *why and returns false. */
bool tc_explain(struct tc_why *why, bool unmodelled, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define tc_refuse(why, ...)     tc_explain(why, false, __VA_ARGS__)
#define tc_unmodelled(why, ...) tc_explain(why, true, __VA_ARGS__)

enum tc_swizzle {
    TC_SWIZZLE_NONE,
    TC_SWIZZLE_32B,
    TC_SWIZZLE_64B,
    TC_SWIZZLE_128B,
    TC_SWIZZLE_128B_ATOM32, /* 128-byte swizzle that moves 32-byte units: tcgen05, 32-bit MN-major only */
};

struct tc_matrix_descriptor {
    uint32_t start;                         /* byte address in shared memory */
    uint32_t leading_offset, stride_offset; /* bytes */
    uint32_t base_offset;                   /* 0 to 7, in units of 128 bytes: start of the swizzle pattern */
    enum tc_swizzle swizzle;
};

bool tc_decode_wgmma_descriptor(uint64_t bits, struct tc_matrix_descriptor *out, struct tc_why *why);
bool tc_decode_tcgen05_descriptor(uint64_t bits, struct tc_matrix_descriptor *out, struct tc_why *why);

/* ---- operands in shared memory ----
 * An operand has rows (of M or N) and K columns.  Hardware reads it in chunks of 16 bytes; tc_operand_chunks
 * lists their addresses, for the fetch, the hazard check and the bank-conflict counter.
 *   K-major: chunk [row * k_chunks + j] holds the K elements from j * per_chunk on of one row.
 *   MN-major: chunk [k * mn_chunks + j] holds the rows from j * per_chunk on at one k. */
enum {
    TC_MAX_CHUNKS = 1024,
    TC_CHUNK_BYTES = 16,
};

struct tc_operand_shape {
    enum tc_format format;
    int rows, k;
    bool mn_major;
    bool padded; /* kinds f8f6f4 and mxf8f6f4: 16 codes of 4 or 6 bits, padded to 16 bytes */
};

/* Returns the number of chunks, or -1 with a reason. A chunk beyond smem_bytes is an error. */
int tc_operand_chunks(const struct tc_matrix_descriptor *desc, const struct tc_operand_shape *shape,
                      uint32_t smem_bytes, uint32_t chunks[TC_MAX_CHUNKS], struct tc_why *why);

/* Gathers the chunks into rows of codes in the form that mma/arith.h describes; row i starts at out[i *
 * row_stride]. */
void tc_operand_gather(const uint8_t *smem, const struct tc_operand_shape *shape, const uint32_t *chunks,
                       uint8_t *out, size_t row_stride);

/* ---- tcgen05 instruction descriptors ---- */
enum tc_kind {
    TC_KIND_F16,
    TC_KIND_TF32,
    TC_KIND_F8F6F4,
    TC_KIND_I8,
    TC_KIND_MXF8F6F4,
    TC_KIND_MXF4,
    TC_KIND_MXF4NVF4,
    TC_KINDS
};

struct tc_instruction {
    enum tc_kind kind;
    int cta_group; /* 1 or 2 */
    bool ws;
    int m, n, k; /* k: of B's rows; a row of a sparse A stores half of it, rule.k */
    bool a_mn_major, b_mn_major;
    bool sparse;
    int selector;       /* sparse A of f16 or tf32: which of two columns holds the metadata */
    int sfa_id, sfb_id; /* byte of the scale word where the instruction's scales start */
    int scales;         /* per row: 0, 1, 2 or 4 */
    int max_shift;      /* .ws */
    struct tc_mma_rule rule;
};

/* `scales`: the instruction's scale_vec (1, 2 or 4); 0: the kind's default. */
bool tc_decode_instruction(uint32_t bits, enum tc_kind kind, int cta_group, bool ws, int scales,
                           struct tc_instruction *out, struct tc_why *why);

/* Checks the swizzle against the operand's type and major-ness. */
bool tc_check_operand(const struct tc_instruction *in, bool is_b, const struct tc_matrix_descriptor *desc,
                      struct tc_why *why);

/* The operand's shape in one CTA; each CTA of a pair holds half of A's rows and half of B's. */
struct tc_operand_shape tc_a_shape(const struct tc_instruction *in);
struct tc_operand_shape tc_b_shape(const struct tc_instruction *in);

#endif
