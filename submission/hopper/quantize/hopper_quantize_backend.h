/* The quantizer on the hopper backend. */
#ifndef HOPPER_QUANTIZE_BACKEND_H
#define HOPPER_QUANTIZE_BACKEND_H

#include "../../core/backend.h"

/* struct backend's `run_quantize`. */
int32_t hopper_run_quantize(const struct quantization *quantization);

#endif
