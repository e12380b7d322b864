/* What this machine has for the CPU backend: instruction sets, processors and their name. */
#ifndef CPU_MACHINE_H
#define CPU_MACHINE_H

#include <stddef.h>
#include <stdint.h>

#include "kernel_set.h"

enum { MACHINE_MOST_THREADS = 256 };

/* The set that NVFP4_CPU_ISA names, else the first that this machine has and that is made for so many rows of
 * A.  A name that is none of those built in is an argument error, one that this machine lacks is unavailable.
 */
int32_t machine_kernels(int64_t rows, const struct kernels **chosen);

/* The first number of OMP_NUM_THREADS if that is at least 1, else the number of processors that this process
 * may run on; at most MACHINE_MOST_THREADS. */
int64_t machine_threads(void);

/* Whether there are kernels to run; `detail` then tells set, threads and processor in a line, else why not. */
int machine_describe(char *detail, size_t detail_bytes);

#endif
