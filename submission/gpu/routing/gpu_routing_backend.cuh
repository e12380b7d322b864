/* The kernels around the products of experts of a backend, in a file that is compiled for its chips: struct
 * backend's `run_route` and `run_combine`, which the backend's header declares. */
#ifndef GPU_ROUTING_BACKEND_CUH
#define GPU_ROUTING_BACKEND_CUH

#include "gpu_combine.cuh"
#include "gpu_route.cuh"

#define GPU_ROUTING_BACKEND(name, pdl_variable)                                                                \
    int32_t name##_run_route(const struct routing *routing) {                                                  \
        const void *const kernels[ROUTE_LANE_SIZES] = {(const void *)route_kernel<ROUTE_LANE_LOGITS(0)>,       \
                                                       (const void *)route_kernel<ROUTE_LANE_LOGITS(1)>,       \
                                                       (const void *)route_kernel<ROUTE_LANE_LOGITS(2)>};      \
        return gpu_run_route(routing, #name, kernels, pdl_variable);                                           \
    }                                                                                                          \
    int32_t name##_run_combine(const struct combination *combination) {                                        \
        const void *const kernels[] = {(const void *)combine_kernel<false>,                                    \
                                       (const void *)combine_kernel<true>};                                    \
        return gpu_run_combine(combination, #name, kernels, pdl_variable);                                     \
    }

#endif
