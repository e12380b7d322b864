/* Limits that are the same on all chips. */
#ifndef SIM_CUDART_COMMON_LIMITS_H
#define SIM_CUDART_COMMON_LIMITS_H

#include <cuda_runtime_api.h>

int common_limit(enum cudaDeviceAttr attribute); /* 0: not one of them */
void common_limits_of(struct cudaDeviceProp *properties);

#endif
