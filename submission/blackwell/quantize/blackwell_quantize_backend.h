/* The quantizer on the blackwell backend. */
#ifndef BLACKWELL_QUANTIZE_BACKEND_H
#define BLACKWELL_QUANTIZE_BACKEND_H

#include "../../core/backend.h"

/* struct backend's `run_quantize` and `pad`. */
int32_t blackwell_run_quantize(const struct quantization *quantization);
int32_t blackwell_pad(const struct problem *problem, const struct padded_rows *rows);

#endif
