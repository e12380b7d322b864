#include "../../gpu/quantize/gpu_quantize_backend.cuh"
#include "../hopper_config.h"
#include "../hopper_run.h"

GPU_QUANTIZE_BACKEND(hopper, HOPPER_PDL_VARIABLE)
