/* The descriptors that tcgen05.mma and tcgen05.cp take, field by field.  For host and device: tested on the
 * host. Sections are those of the PTX ISA 9.0. */
#ifndef GPU_TCGEN05_DESCRIPTORS_H
#define GPU_TCGEN05_DESCRIPTORS_H

#include <stdint.h>

#ifdef __CUDACC__
#define DESCRIPTOR static __host__ __device__ __forceinline__
#else
#define DESCRIPTOR static inline
#endif

/* HW: Shared Memory Descriptor: bits 0-13 start address, 16-29 leading offset, 32-45 stride (all in units of 16
 * bytes), 46-47 version 1, 61-63 swizzle. */
DESCRIPTOR uint64_t shared_matrix_descriptor(uint32_t address, uint32_t leading_bytes, uint32_t stride_bytes,
                                             uint32_t swizzle) {
    const uint64_t version = 1;
    return (uint64_t)(address >> 4 & 0x3fff) | (uint64_t)(leading_bytes >> 4) << 16 |
           (uint64_t)(stride_bytes >> 4) << 32 | version << 46 | (uint64_t)swizzle << 61;
}

/* A K-major tile in 128-byte rows, swizzled over consecutive atoms of 8 rows; 1024-byte aligned.
 * HW: with a swizzle the leading offset is not used, and is encoded as 1. */
DESCRIPTOR uint64_t swizzled_tile_descriptor(uint32_t address) {
    const uint32_t unused = 16, atom_bytes = 1024, swizzle_128b = 2;
    return shared_matrix_descriptor(address, unused, atom_bytes, swizzle_128b);
}

/* A 512-byte tile of scale factors: 32 rows of 16 bytes, as tcgen05.cp.32x128b takes it. */
DESCRIPTOR uint64_t scale_tile_descriptor(uint32_t address) {
    const uint32_t unused = 16, core_matrix_bytes = 128, swizzle_none = 0;
    return shared_matrix_descriptor(address, unused, core_matrix_bytes, swizzle_none);
}

/* A descriptor's start by bytes: within a swizzle atom it moves along K. */
DESCRIPTOR uint32_t descriptor_advance(uint32_t bytes) {
    return bytes >> 4;
}

/* Moves a descriptor's start.  Shared memory ends before the field does, so only the low word changes: adding
 * 64 bits would take several instructions. */
DESCRIPTOR uint64_t advance_descriptor(uint64_t descriptor, uint32_t advance) {
    return (descriptor >> 32 << 32) | ((uint32_t)descriptor + advance);
}

/* HW: Instruction descriptor of kind::mxf4nvf4: bits 7-9 and 10-11 formats of A and B (e2m1 is 1), 17-22 N / 8,
 * 23 scale format (ue4m3 is 0), 27-28 M / 128; K-major operands, K = 64 and scale-factor ids 0 are zeros. */
DESCRIPTOR uint32_t nvfp4_instruction_descriptor(uint32_t m, uint32_t n) {
    const uint32_t e2m1 = 1;
    return e2m1 << 7 | e2m1 << 10 | n / 8 << 17 | m / 128 << 27;
}

#endif
