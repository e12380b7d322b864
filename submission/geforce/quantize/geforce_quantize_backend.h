/* The quantizer on the geforce backend. */
#ifndef GEFORCE_QUANTIZE_BACKEND_H
#define GEFORCE_QUANTIZE_BACKEND_H

#include "../../core/backend.h"

/* struct backend's `run_quantize` and `pad`. */
int32_t geforce_run_quantize(const struct quantization *quantization);
int32_t geforce_pad(const struct problem *problem, const struct padded_rows *rows);

#endif
