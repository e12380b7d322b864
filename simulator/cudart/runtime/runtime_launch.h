/* Launches by the shim's own files. */
#ifndef SIM_CUDART_RUNTIME_LAUNCH_H
#define SIM_CUDART_RUNTIME_LAUNCH_H

#include "cudart/shim.h"

/* Launches at once, also while the stream is captured. */
cudaError_t runtime_launch(const void *function, const struct sim_launch_attributes *wanted, void **arguments,
                           cudaStream_t queue);

#endif
