/* The quantizer on the geforce backend. */
#ifndef GEFORCE_QUANTIZE_BACKEND_H
#define GEFORCE_QUANTIZE_BACKEND_H

#include "../../core/backend.h"

/* struct backend's `run_quantize`. */
int32_t geforce_run_quantize(const struct quantization *quantization);

#endif
