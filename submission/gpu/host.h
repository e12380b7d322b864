/* What the host sides of the GPU back ends share: errors, devices, tensor maps, scratch memory, launch
 * attributes.
 *
 * Nothing is kept between calls but each device's memory pool and the driver's entry point; neither depends on
 * data or addresses. */
#ifndef GPU_HOST_H
#define GPU_HOST_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdatomic.h>

#include "../core/backend.h"

enum {
    MAX_DEVICES = 64,
    MAX_CONFIGS = 32,    /* of a back end */
    MAX_GRID_YZ = 65535, /* HW: CUDA programming guide, grid dimensions */
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

/* A compute capability: 10 * major + minor. */
enum {
    CAPABILITY_H100 = 90, /* and H200 */
    CAPABILITY_B200 = 100,
    CAPABILITY_B300 = 103,
};

/* struct backend's `available`, for devices of one of `count` compute capabilities. */
int gpu_available(int32_t device, const int *capabilities, int count, char *detail, size_t detail_bytes);

/* A tensor of rows, rows of a batch and batches, all contiguous, and the box of one batch that a copy takes. */
struct tensor_3d {
    const void *address;
    CUtensorMapDataType type;
    int64_t row_elems, rows, batches;
    int element_bytes;
    uint32_t box_elems, box_rows;
    CUtensorMapSwizzle swizzle;
};

/* Its tensor map; what lies outside is filled with zeros.  `name` is for the message of a failure. */
int32_t gpu_encode(const char *name, const struct tensor_3d *tensor, CUtensorMap *map);

/* The index of the tile that the environment's `variable` names, or -1 where it is unset or empty; `name_of`
 * gives the name of each index, NULL past the last one. */
int32_t gpu_wanted_tile(const char *variable, const char *(*name_of)(int index), int *index);

/* A kernel's shared memory has to be asked for once on each device: `allowed` says that it was. */
int32_t gpu_allow_shared_memory(atomic_bool *allowed, const void *kernel, int bytes);

struct launch {
    const void *kernel;
    int64_t grid[3];
    int64_t threads, cluster; /* CTAs along x; 1 without clusters */
    int shared_bytes;
    const char *variable; /* of the environment: 0 turns dependent launch off */
};

/* How many clusters of a launch run at once on the current device, or -1 where the driver does not say.  Its
 * kernel was given its shared memory. */
int gpu_clusters_at_once(const struct launch *launch);

/* Launches on the problem's queue.  The kernel may start before the one in front of it is complete, and waits
 * for that itself. */
int32_t gpu_launch(const struct problem *problem, const struct launch *launch, void **arguments);

/* Calls `run` with so many bytes of scratch memory, which are free for the work behind it on the queue.  They
 * come from a pool of the device's own, which keeps its memory. */
int32_t gpu_with_scratch(const struct problem *problem, int64_t bytes, const void *plan,
                         int32_t (*run)(const struct problem *problem, const void *plan, uint8_t *scratch));

/* Calls `run` with the problem's device as the current one; the caller's is current again afterwards. */
int32_t gpu_on_device(const struct problem *problem, int32_t (*run)(const struct problem *problem));

#endif
