/* Descriptors of the tensor-core instructions, decoded field by field: shared-memory matrix descriptors of
 * wgmma and tcgen05, and tcgen05's instruction descriptors.  Every decoder returns false with a sentence that
 * names the field when a value is illegal. */
#ifndef TENSOR_DESCRIPTOR_H
#define TENSOR_DESCRIPTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tensorcore/mma/arith.h"
#include "tensorcore/mma/formats.h"

/* Why something was refused: one sentence, no full stop.  `unmodelled` says that it may be legal, but the
 * simulator does not do it (K = 96, some shapes of a sparse A): an `incomplete` verdict, not an error. */
struct tc_why {
    bool unmodelled;
    char text[240];
};
/* Both return false. */
bool tc_refuse(struct tc_why *why, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool tc_unmodelled(struct tc_why *why, const char *format, ...) __attribute__((format(printf, 2, 3)));

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
    uint32_t base_offset;                   /* 0-7, in units of 128 bytes: where the swizzle pattern starts */
    enum tc_swizzle swizzle;
};

bool tc_decode_wgmma_descriptor(uint64_t bits, struct tc_matrix_descriptor *out, struct tc_why *why);
bool tc_decode_tcgen05_descriptor(uint64_t bits, struct tc_matrix_descriptor *out, struct tc_why *why);

/* ---- operands in shared memory ----
 * An operand is rows (of M or N) by K.  Hardware reads it in units of 16 bytes; `tc_operand_chunks` gives the
 * address of each, so it serves the fetch, the hazard check and the bank-conflict counter alike.
 *   K-major: chunk [row * k_chunks + j] holds K elements j * per_chunk .. of one row.
 *   MN-major: chunk [k * mn_chunks + j] holds rows j * per_chunk .. at one k. */
enum {
    TC_MAX_CHUNKS = 1024,
    TC_CHUNK_BYTES = 16,
};

struct tc_operand_shape {
    enum tc_format format;
    int rows, k;
    bool mn_major;
    bool padded; /* kind f8f6f4 and mxf8f6f4: 16 codes of 4 or 6 bits padded to 16 bytes */
};

/* Returns the number of chunks, or -1 with a reason.  A chunk that would lie outside of smem_bytes is an error.
 */
int tc_operand_chunks(const struct tc_matrix_descriptor *desc, const struct tc_operand_shape *shape,
                      uint32_t smem_bytes, uint32_t chunks[TC_MAX_CHUNKS], struct tc_why *why);

/* Gathers the chunks into rows of codes as mma_arith.h wants them: row_bytes bytes a row, out[row *
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
extern const char *const tc_kind_names[TC_KINDS]; /* "f16", ... */

struct tc_instruction {
    enum tc_kind kind;
    int cta_group; /* 1 or 2 */
    bool ws;
    int m, n, k; /* K of B's rows; a sparse A's rows hold half of it, rule.k */
    bool a_mn_major, b_mn_major;
    bool sparse;
    int selector;       /* f16, tf32 with a sparse A: which of two columns holds the metadata */
    int sfa_id, sfb_id; /* byte of the scale word where the instruction's scales start */
    int scales;         /* per row: 0, 1, 2 or 4 */
    int max_shift;      /* .ws */
    struct tc_mma_rule rule;
};

/* `scales` is the instruction's scale_vec (1, 2 or 4), 0 without one: then the kind's default.  `ws` for .ws.
 */
bool tc_decode_instruction(uint32_t bits, enum tc_kind kind, int cta_group, bool ws, int scales,
                           struct tc_instruction *out, struct tc_why *why);

/* Which swizzles an operand of this major-ness and type can have. */
bool tc_check_operand(const struct tc_instruction *in, bool is_b, const struct tc_matrix_descriptor *desc,
                      struct tc_why *why);

/* The operand's shape as one CTA holds it: half the rows of A and of B each in a CTA pair. */
struct tc_operand_shape tc_a_shape(const struct tc_instruction *in);
struct tc_operand_shape tc_b_shape(const struct tc_instruction *in);

#endif
