#include "../../gpu/routing/gpu_routing_backend.cuh"
#include "../geforce_config.h"
#include "../geforce_run.h"

GPU_ROUTING_BACKEND(geforce, GEFORCE_PDL_VARIABLE)
