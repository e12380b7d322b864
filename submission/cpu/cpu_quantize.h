/* The quantizer on the CPU backend. */
#ifndef CPU_QUANTIZE_H
#define CPU_QUANTIZE_H

#include "../core/backend.h"

/* struct backend's `run_quantize`. */
int32_t cpu_run_quantize(const struct quantization *quantization);

#endif
