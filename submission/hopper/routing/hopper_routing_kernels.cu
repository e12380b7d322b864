#include "../../gpu/routing/gpu_routing_backend.cuh"
#include "../hopper_config.h"
#include "../hopper_run.h"

GPU_ROUTING_BACKEND(hopper, HOPPER_PDL_VARIABLE)
