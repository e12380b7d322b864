/* How many CTAs of a kernel the chip holds. */
#ifndef SIM_CUDART_KERNEL_PROPERTIES_H
#define SIM_CUDART_KERNEL_PROPERTIES_H

#include "cudart/shim.h"

#define PORTABLE_CLUSTER 8 /* HW: CTAs that every chip with clusters holds (CUDA C++ Programming Guide) */

/* Blocks that an SM holds at once by threads, shared memory and, if machine code says them, registers; 0: a
 * block does not fit. */
int kernel_blocks_of_sm(const struct sim_module *module, const struct kernel_entry *kernel, int threads,
                        size_t dynamic_shared);
/* The most dynamic shared memory of a launch: what cudaFuncSetAttribute has allowed, else what the static
 * leaves. */
int kernel_shared_limit(const struct sim_module *module, const struct kernel_entry *kernel);

#endif
