/* The shared-memory descriptor that wgmma.mma_async takes, field by field.  For host and device: tested on the
 * host.  Sections are those of the PTX ISA 9.0. */
#ifndef GPU_WGMMA_DESCRIPTORS_H
#define GPU_WGMMA_DESCRIPTORS_H

#include <stdint.h>

#include "../gpu_limits.h"

#ifdef __CUDACC__
#define WGMMA_DESCRIPTOR static __host__ __device__ __forceinline__
#else
#define WGMMA_DESCRIPTOR static inline
#endif

/* HW: Matrix Descriptor Format: bits 0-13 start address, 16-29 leading offset, 32-45 stride (all in units of 16
 * bytes), 49-51 base offset (0: atoms are aligned to their size), 62-63 swizzle (1 is 128 bytes). */
WGMMA_DESCRIPTOR uint64_t wgmma_matrix_descriptor(uint32_t address, uint32_t leading_bytes,
                                                  uint32_t stride_bytes, uint32_t swizzle) {
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)(leading_bytes >> 4) << 16 |
           (uint64_t)(stride_bytes >> 4) << 32 | (uint64_t)swizzle << 62;
}

/* A K-major tile in 128-byte rows, swizzled over atoms of 8 rows, each 1024-byte aligned, along_rows_bytes from
 * one to the next; a start inside an atom's row moves along K.  HW: with a swizzle the leading offset is not
 * used. */
WGMMA_DESCRIPTOR uint64_t wgmma_swizzled_atoms_descriptor(uint32_t address, uint32_t along_rows_bytes) {
    const uint32_t unused = 16, swizzle_128b = 1;
    return wgmma_matrix_descriptor(address, unused, along_rows_bytes, swizzle_128b);
}

/* A tile of consecutive atoms. */
WGMMA_DESCRIPTOR uint64_t wgmma_swizzled_tile_descriptor(uint32_t address) {
    return wgmma_swizzled_atoms_descriptor(address, SWIZZLE_ATOM_BYTES);
}

/* A K-major tile of core matrices, not swizzled: each is 8 consecutive rows of 16 bytes; the arguments are the
 * bytes from one to the next along K, and to the next 8 rows. */
WGMMA_DESCRIPTOR uint64_t wgmma_core_matrix_descriptor(uint32_t address, uint32_t along_k_bytes,
                                                       uint32_t along_rows_bytes) {
    const uint32_t no_swizzle = 0;
    return wgmma_matrix_descriptor(address, along_k_bytes, along_rows_bytes, no_swizzle);
}

/* The descriptor for a start `bytes` further on, in the shared memory of the same CTA: the address field cannot
 * overflow, so one addition suffices, while building a descriptor takes six uniform instructions. */
WGMMA_DESCRIPTOR uint64_t wgmma_descriptor_plus(uint64_t descriptor, uint32_t bytes) {
    return (descriptor & ~(uint64_t)UINT32_MAX) | ((uint32_t)descriptor + (bytes >> 4));
}

#endif
