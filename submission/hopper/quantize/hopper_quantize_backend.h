/* The quantizer on the hopper backend. */
#ifndef HOPPER_QUANTIZE_BACKEND_H
#define HOPPER_QUANTIZE_BACKEND_H

#include "../../core/backend.h"

/* struct backend's `run_quantize` and `pad`. */
int32_t hopper_run_quantize(const struct quantization *quantization);
int32_t hopper_pad(const struct problem *problem, const struct padded_rows *rows);

#endif
