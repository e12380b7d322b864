/* Decodes shared-memory matrix descriptors and lists and gathers the 16-byte chunks of their operands. */
#include "descriptor.h"

#include <stdarg.h>
#include <stdio.h>

bool tc_explain(struct tc_why *why, bool unmodelled, const char *format, ...) {
    if (why) {
        va_list args;
        why->unmodelled = unmodelled;
        va_start(args, format);
        vsnprintf(why->text, sizeof why->text, format, args);
        va_end(args);
    }
    return false;
}

static uint32_t field(uint64_t bits, int low, int width) {
    return (uint32_t)(bits >> low & ((1ull << width) - 1));
}

static bool reserved(uint64_t bits, int low, int width, const char *what, struct tc_why *why) {
    uint32_t value = field(bits, low, width);
    if (!value) {
        return true;
    }
    return tc_refuse(why, "%s: bits %d-%d are reserved and must be 0, not 0x%x", what, low, low + width - 1,
                     value);
}

static void common_fields(uint64_t bits, struct tc_matrix_descriptor *out) {
    out->start = field(bits, 0, 14) << 4;
    out->leading_offset = field(bits, 16, 14) << 4;
    out->stride_offset = field(bits, 32, 14) << 4;
    out->base_offset = field(bits, 49, 3);
}

/* PTX ISA "Asynchronous Warpgroup Level Matrix Instructions", "Matrix Descriptor Format". */
bool tc_decode_wgmma_descriptor(uint64_t bits, struct tc_matrix_descriptor *out, struct tc_why *why) {
    static const enum tc_swizzle swizzles[4] = {TC_SWIZZLE_NONE, TC_SWIZZLE_128B, TC_SWIZZLE_64B,
                                                TC_SWIZZLE_32B};
    const char *what = "wgmma matrix descriptor";
    if (!reserved(bits, 14, 2, what, why) || !reserved(bits, 30, 2, what, why) ||
        !reserved(bits, 46, 3, what, why) || !reserved(bits, 52, 10, what, why)) {
        return false;
    }
    common_fields(bits, out);
    out->swizzle = swizzles[field(bits, 62, 2)];
    return true;
}

/* PTX ISA "TensorCore 5th Generation Family Instructions", "Shared memory descriptor". */
bool tc_decode_tcgen05_descriptor(uint64_t bits, struct tc_matrix_descriptor *out, struct tc_why *why) {
    static const enum tc_swizzle swizzles[8] = {
        [1] = TC_SWIZZLE_128B_ATOM32, [2] = TC_SWIZZLE_128B, [4] = TC_SWIZZLE_64B, [6] = TC_SWIZZLE_32B};
    const char *what = "tcgen05 matrix descriptor";
    if (!reserved(bits, 14, 2, what, why) || !reserved(bits, 30, 2, what, why) ||
        !reserved(bits, 53, 8, what, why)) {
        return false;
    }
    if (field(bits, 46, 3) != 1) {
        return tc_refuse(why, "%s: bits 46-48 must be 0b001 on sm_100, not 0x%x", what, field(bits, 46, 3));
    }
    if (field(bits, 52, 1)) {
        return tc_refuse(why, "%s: leading dimension stride mode 1 (absolute address) needs sm_103a", what);
    }
    common_fields(bits, out);
    const uint32_t mode = field(bits, 61, 3);
    out->swizzle = swizzles[mode];
    return mode == 0 || out->swizzle != TC_SWIZZLE_NONE ||
           tc_refuse(why, "%s: swizzle mode %u is not one of 0, 1, 2, 4, 6", what, mode);
}

/* The swizzled address of a byte, where TMA writes and the tensor core reads it. HW: the pattern depends on the
 * address bits from 7 up; the base offset shifts it if it does not start where those bits are 0 (PTX ISA,
 * Shared memory descriptor, matrix base offset). */
static uint32_t swizzle_address(enum tc_swizzle swizzle, uint32_t address, uint32_t base_offset) {
    uint32_t line = (address >> 7) - base_offset;
    switch (swizzle) {
    case TC_SWIZZLE_32B:
        return address ^ (line & 1) << 4;
    case TC_SWIZZLE_64B:
        return address ^ (line & 3) << 4;
    case TC_SWIZZLE_128B:
        return address ^ (line & 7) << 4;
    case TC_SWIZZLE_128B_ATOM32:
        return address ^ (line & 3) << 5;
    default:
        return address;
    }
}

/* Elements per 16-byte chunk. */
static int chunk_elems(const struct tc_operand_shape *shape) {
    return shape->padded ? TC_CHUNK_BYTES : 8 * TC_CHUNK_BYTES / tc_formats[shape->format].bits;
}

/* Chunks along the leading dimension of a swizzle atom. */
static uint32_t atom_chunks(enum tc_swizzle swizzle) {
    static const uint8_t chunks[] = {[TC_SWIZZLE_NONE] = 1,
                                     [TC_SWIZZLE_32B] = 2,
                                     [TC_SWIZZLE_64B] = 4,
                                     [TC_SWIZZLE_128B] = 8,
                                     [TC_SWIZZLE_128B_ATOM32] = 8};
    return chunks[swizzle];
}

/* Offset of a chunk (PTX ISA, Shared Memory Layout and Swizzling, Canonical Layouts).  A line is an atom's
 * chunks along the leading dimension; 8 lines (4 with 32-byte atomicity) follow one another in an atom.
 *   K-major: atoms are stride_offset apart along M or N; without swizzle, chunks are leading_offset apart
 *   along K.
 *   MN-major: atoms are stride_offset apart along K and leading_offset along M or N; without swizzle the
 *   reverse. */
static uint32_t chunk_offset(const struct tc_matrix_descriptor *d, bool mn_major, uint32_t line,
                             uint32_t chunk) {
    uint32_t width = atom_chunks(d->swizzle);
    uint32_t lines = mn_major && d->swizzle == TC_SWIZZLE_128B_ATOM32 ? 4 : 8;
    uint32_t next_chunks = d->leading_offset, next_lines = d->stride_offset;
    if (mn_major && d->swizzle == TC_SWIZZLE_NONE) {
        next_chunks = d->stride_offset;
        next_lines = d->leading_offset;
    }
    return line % lines * width * TC_CHUNK_BYTES + line / lines * next_lines + chunk % width * TC_CHUNK_BYTES +
           chunk / width * next_chunks;
}

int tc_operand_chunks(const struct tc_matrix_descriptor *desc, const struct tc_operand_shape *shape,
                      uint32_t smem_bytes, uint32_t chunks[TC_MAX_CHUNKS], struct tc_why *why) {
    uint32_t elems = (uint32_t)chunk_elems(shape);
    uint32_t lines = (uint32_t)(shape->mn_major ? shape->k : shape->rows);
    uint32_t extent = (uint32_t)(shape->mn_major ? shape->rows : shape->k),
             across = (extent + elems - 1) / elems;
    if (lines * across > TC_MAX_CHUNKS) {
        tc_refuse(why, "an operand of %d rows and K = %d is too large", shape->rows, shape->k);
        return -1;
    }
    int count = 0;
    for (uint32_t line = 0; line < lines; line++) {
        for (uint32_t j = 0; j < across; j++) {
            uint32_t linear = desc->start + chunk_offset(desc, shape->mn_major, line, j);
            uint32_t address = swizzle_address(desc->swizzle, linear, desc->base_offset);
            if (address > smem_bytes || smem_bytes - address < TC_CHUNK_BYTES) {
                tc_refuse(
                    why,
                    "the operand at shared address 0x%x (leading offset %u, stride offset %u) reaches 0x%x, "
                    "beyond the CTA's 0x%x bytes",
                    desc->start, desc->leading_offset, desc->stride_offset, address, smem_bytes);
                return -1;
            }
            chunks[count++] = address;
        }
    }
    return count;
}

/* Unpacks 16 codes of 4 or 6 bits, packed little-endian, to a byte each (PTX ISA, Packing format used for
 * matrix A and B by .kind::mxf8f6f4 in Shared Memory). */
static void unpack(const uint8_t *chunk, int bits, uint8_t out[TC_CHUNK_BYTES]) {
    for (int i = 0; i < TC_CHUNK_BYTES; i++) {
        int at = i * bits;
        uint32_t pair = chunk[at / 8] | (uint32_t)chunk[at / 8 + 1] << 8;
        out[i] = (uint8_t)(pair >> (at % 8) & ((1u << bits) - 1));
    }
}

void tc_operand_gather(const uint8_t *smem, const struct tc_operand_shape *shape, const uint32_t *chunks,
                       uint8_t *out, size_t row_stride) {
    int bits = tc_formats[shape->format].bits;
    size_t elems = (size_t)chunk_elems(shape), rows = (size_t)shape->rows, k = (size_t)shape->k;
    uint8_t codes[TC_CHUNK_BYTES];
    if (!shape->mn_major) {
        size_t across = (k + elems - 1) / elems;
        for (size_t row = 0; row < rows; row++) {
            for (size_t j = 0; j < across; j++) {
                const uint8_t *chunk = smem + *chunks++;
                if (shape->padded) {
                    unpack(chunk, bits, codes);
                    chunk = codes;
                }
                memcpy(out + row * row_stride + j * TC_CHUNK_BYTES, chunk, TC_CHUNK_BYTES);
            }
        }
        return;
    }
    size_t size = shape->padded ? 1 : (size_t)bits / 8, across = (rows + elems - 1) / elems;
    for (size_t i = 0; i < k; i++) {
        for (size_t j = 0; j < across; j++) {
            const uint8_t *chunk = smem + *chunks++;
            if (shape->padded) {
                unpack(chunk, bits, codes);
                chunk = codes;
            }
            for (size_t x = 0; x < elems && j * elems + x < rows; x++) {
                memcpy(out + (j * elems + x) * row_stride + i * size, chunk + x * size, size);
            }
        }
    }
}
