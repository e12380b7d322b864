/* This machine, as the CPU backend uses it: instruction sets, threads, and the processor's name. */
#ifndef CPU_MACHINE_H
#define CPU_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#include "kernel_set.h"

enum { MACHINE_MOST_THREADS = 256 };

/* Chooses the set that NVFP4_CPU_ISA names, else the fastest for `rows` rows of A that this machine can run.  A
 * name that is not built in is CUSTOM_KERNEL_ERROR_ARGUMENT; one that cannot run here, ..._UNAVAILABLE. */
int32_t machine_kernels(int64_t rows, const struct kernels **chosen);

/* The first number in OMP_NUM_THREADS if it is at least 1, else the number of processors that this process may
 * run on; at most MACHINE_MOST_THREADS. */
int64_t machine_threads(void);

/* True if a set of kernels can run here.  Writes set, threads and processor to `detail`, or the reason. */
int machine_describe(char *detail, size_t detail_bytes);

#endif
