/* What the host sides of the GPU back ends share: errors, devices, tensor maps, scratch memory, launch
 * attributes.
 *
 * Nothing is kept between calls but each device's memory pool and the driver's entry point; neither depends on
 * data or addresses. */
#ifndef GPU_HOST_H
#define GPU_HOST_H

#include <cuda.h>
#include <cuda_runtime_api.h>

#include "../core/backend.h"

enum {
    MAX_DEVICES = 64,
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

/* struct backend's `available`, for devices of compute capability major.minor. */
int gpu_available(int32_t device, int major, int minor, char *detail, size_t detail_bytes);

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

/* A device's own memory pool for scratch: it keeps its memory, and reuse follows the order of the queue. */
int32_t gpu_find_pool(int32_t device, cudaMemPool_t *found);

/* Launch attribute: a kernel may start before the one in front of it is complete, and waits for that itself.
 * Setting `variable` to 0 in the environment turns it off. */
cudaLaunchAttribute gpu_dependent_launch(const char *variable);

/* Calls `run` with the problem's device as the current one; the caller's is current again afterwards. */
int32_t gpu_on_device(const struct problem *problem, int32_t (*run)(const struct problem *problem));

#endif
