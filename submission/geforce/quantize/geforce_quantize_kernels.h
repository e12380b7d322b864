/* The quantizer's compiled kernels, for the host side. */
#ifndef GEFORCE_QUANTIZE_KERNELS_H
#define GEFORCE_QUANTIZE_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kernel for a form and a type of x; its parameter is struct quantize_params. */
const void *geforce_quantize_kernel(int32_t form, int32_t type);

/* The kernel that pads rows; its parameter is struct padded_rows. */
const void *geforce_pad_kernel(void);

#ifdef __cplusplus
}
#endif

#endif
