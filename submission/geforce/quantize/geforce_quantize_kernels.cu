#include "../../gpu/quantize/gpu_quantize_backend.cuh"
#include "../geforce_config.h"
#include "../geforce_run.h"

GPU_QUANTIZE_BACKEND(geforce, GEFORCE_PDL_VARIABLE)
