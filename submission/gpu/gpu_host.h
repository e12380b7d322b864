/* What the host sides of the GPU backends share, in the order of a call: devices, scratch memory, limits, the
 * tile that the environment names, tensor maps, launches.
 *
 * CUDA's word for a queue of work is `queue` here and in every bundled file: the leaderboard refuses a
 * submission that holds the other word, even in a comment.
 *
 * Nothing is kept between calls but each device's memory pool and the driver's entry point; neither depends on
 * data or addresses. */
#ifndef GPU_HOST_H
#define GPU_HOST_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdatomic.h>

#include "../core/backend.h"
#include "gpu_limits.h"
#include "permute_scales.h"

enum {
    MAX_DEVICES = 64,
    /* Rows and K that a GPU backend takes: coordinates, and offsets inside a row, are 32 bits. */
    MAX_DIMENSION = INT32_MAX / 8,
    SCRATCH_ALIGNMENT = 256, /* bytes; of each part of the scratch memory */
};

/* Keeps `what` and the error's name as the message; returns the status for it. */
int32_t gpu_error(const char *what, cudaError_t error);

#define CHECK_CUDA(call)                                                                                       \
    do {                                                                                                       \
        cudaError_t error_ = (call);                                                                           \
        if (error_ != cudaSuccess) {                                                                           \
            return gpu_error(#call, error_);                                                                   \
        }                                                                                                      \
    } while (0)

/* --- devices --- */

/* A compute capability: 10 * major + minor. */
enum {
    CAPABILITY_H100 = 90, /* and H200 */
    CAPABILITY_B200 = 100,
    CAPABILITY_B300 = 103,
    CAPABILITY_RTX50 = 120, /* and RTX PRO of this generation */
    CAPABILITY_GB10 = 121,
};

/* struct backend's `available`, for devices of one of `count` compute capabilities. */
int gpu_available(int32_t device, const int *capabilities, int count, char *detail, size_t detail_bytes);

/* struct backend's `acquire_device` and `release_device`. */
int32_t gpu_acquire_device(const struct problem *problem, int *before);
int32_t gpu_release_device(const struct problem *problem, int before, int32_t status);

/* --- scratch memory --- */

/* So many bytes of device memory for the work that this call queues, or NULL for no bytes.  They come from a
 * pool of the device's own, which keeps its memory. */
int32_t gpu_acquire_scratch(const struct problem *problem, int64_t bytes, uint8_t **scratch);

/* Gives them back once the work queued so far is complete.  Returns `status`, that of
 * the work between, with its message; or where that succeeded, its own. */
int32_t gpu_release_scratch(const struct problem *problem, uint8_t *scratch, int32_t status);

/* --- limits --- */

/* A number that follows from the arguments, and the largest that the backend can run. */
struct limit {
    const char *what; /* what the caller knows it by: "m", "the number of scale tiles of sfa" */
    int64_t found, most;
};

/* CUSTOM_KERNEL_ERROR_UNSUPPORTED and a message for the first of `count` limits that is exceeded; `tile` is
 * NULL where they hold for all. */
int32_t gpu_check_limits(const char *backend, const char *tile, const struct limit *limits, int count);

/* --- tile selection --- */

/* The index of the tile that the environment's `variable` names, or -1 where it is unset or empty; `name_of`
 * gives the name of each index, NULL past the last one. */
int32_t gpu_wanted_tile(const char *variable, const char *(*name_of)(int index), int *index);

/* --- tensor maps --- */

/* A tensor of rows, rows of a batch and batches, all contiguous unless it says otherwise, and the box that a
 * copy takes. */
struct tensor_3d {
    const void *address;
    CUtensorMapDataType type;
    int64_t row_elems, rows, batches;
    int element_bytes;
    uint32_t box_elems, box_rows;
    CUtensorMapSwizzle swizzle;
    int64_t batch_rows;   /* rows from a batch to the next, where others lie between them; 0: `rows` */
    uint32_t box_batches; /* 0: 1 */
};

/* Its tensor map; out-of-bounds elements read as zero.  `name` is for the message of a failure. */
int32_t gpu_encode(const char *name, const struct tensor_3d *tensor, CUtensorMap *map);

/* A tensor of packed fp4: `rows` rows of the problem's K, in boxes of box_k_bytes by box_rows. */
struct tensor_3d gpu_fp4_tensor(const struct problem *problem, const uint8_t *fp4, int64_t rows,
                                int box_k_bytes, int box_rows, CUtensorMapSwizzle swizzle);

/* --- launches --- */

struct launch {
    const void *kernel;
    int64_t grid[3];
    int64_t threads, cluster; /* CTAs along x; 1 without clusters */
    int shared_bytes;
    const char *pdl_variable; /* of the environment: 0 turns programmatic dependent launch (PDL) off */
};

/* A kernel's shared memory has to be asked for once on each device: `allowed` says that it was. */
int32_t gpu_allow_shared_memory(atomic_bool *allowed, const struct launch *launch);

/* How many clusters of a launch run at once on the current device, or -1 where the driver does not say.  Its
 * kernel was given its shared memory. */
int gpu_clusters_at_once(const struct launch *launch);

/* Launches on the problem's queue.  With PDL the kernel may start before the previous one is complete, and
 * waits for that itself (griddepcontrol.wait). */
int32_t gpu_launch(const struct problem *problem, const struct launch *launch, void **arguments);

/* Launches a backend's kernel that permutes scale factors into the blocked layout.  `params` says which
 * tensors, how many, and tiles_k; the rest of it follows from the problem. */
int32_t gpu_launch_permute_scales(const struct problem *problem, const void *kernel,
                                  struct permute_scales_params params, const char *pdl_variable);

#endif
