#include "../../gpu/routing/gpu_routing_backend.cuh"
#include "../blackwell_config.h"
#include "../blackwell_run.h"

GPU_ROUTING_BACKEND(blackwell, BLACKWELL_PDL_VARIABLE)
