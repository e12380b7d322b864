/* Limits of the chips that the GPU backends run on, for host and device, each with its source: sizes are
 * derived from them or asserted against them.  PG is the CUDA programming guide. */
#ifndef GPU_LIMITS_H
#define GPU_LIMITS_H

#define WARP_THREADS           32
#define WARPGROUP_THREADS      128    /* HW: four warps (PTX ISA, Asynchronous Warpgroup Level Matrix) */
#define MAX_CTA_THREADS        1024   /* HW: PG, compute capabilities */
#define MAX_CTA_REGISTERS      65536  /* HW: 32 bits each; PG, compute capabilities */
#define MAX_THREAD_REGISTERS   255    /* HW: PG, compute capabilities */
#define REGISTER_GRANULE       8      /* HW: setmaxnreg counts in these (PTX ISA) */
#define SM_SHARED_BYTES        233472 /* HW: 228 KB an SM on compute capabilities 9.0 and 10.x; PG */
#define CTA_RESERVED_BYTES     1024   /* HW: taken from that by each CTA besides its own; PG */
#define DEFAULT_SHARED_BYTES   49152  /* HW: 48 KB a CTA without asking for more; PG */
#define MAX_SHARED_BYTES       232448 /* HW: 227 KB a CTA on compute capabilities 9.0 and 10.x; PG */
#define MAX_SHARED_BYTES_SM120 101376 /* HW: 99 KB a CTA on compute capability 12.x; PG */
#define MAX_CLUSTER_CTAS       8      /* HW: portable limit; PG, thread block clusters */
#define MAX_GRID_YZ            65535  /* HW: PG, grid dimensions */
#define MBARRIER_BYTES         8      /* HW: an mbarrier object; aligned to its size (PTX ISA) */
#define SWIZZLE_ROW_BYTES      128    /* HW: the widest swizzle's row (CUDA driver API, tensor maps) */
#define SWIZZLE_ATOM_ROWS      8      /* HW: rows of an atom (PTX ISA, Shared Memory Descriptor) */
#define SWIZZLE_ATOM_BYTES     (SWIZZLE_ATOM_ROWS * SWIZZLE_ROW_BYTES) /* HW: and its alignment */
#define MAX_TMA_BOX_ELEMS      256 /* HW: of each dimension (CUDA driver API, cuTensorMapEncodeTiled) */
#define BULK_COPY_ALIGNMENT    16  /* HW: of cp.async.bulk's addresses and size (PTX ISA) */
#define MAX_WGMMA_N            256 /* HW: PTX ISA, wgmma.mma_async shapes */
#define WGMMA_N_GRANULE        8   /* HW: likewise */
#define MAX_TCGEN05_N          256 /* HW: PTX ISA, tcgen05.mma shapes */
#define TMEM_LANES             128 /* HW: PTX ISA, Tensor Memory */
#define TMEM_COLUMNS           512 /* HW: of 32 bits a lane; likewise */
#define TMEM_QUARTERS 4 /* HW: a warp reaches the quarter of the lanes that its number modulo 4 names */

#endif
