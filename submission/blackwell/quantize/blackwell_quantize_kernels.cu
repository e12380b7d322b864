#include "../../gpu/quantize/gpu_quantize_backend.cuh"
#include "../blackwell_config.h"
#include "../blackwell_run.h"

GPU_QUANTIZE_BACKEND(blackwell, BLACKWELL_PDL_VARIABLE)
