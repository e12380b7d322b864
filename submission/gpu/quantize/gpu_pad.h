/* Copies of operands with K padded: the launch. */
#ifndef GPU_PAD_H
#define GPU_PAD_H

#include "../../core/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

#define PAD_THREADS 256

/* Launches a backend's pad_rows_kernel. */
int32_t gpu_pad(const struct problem *problem, const struct padded_rows *rows, const void *kernel,
                const char *pdl_variable);

#ifdef __cplusplus
}
#endif

#endif
