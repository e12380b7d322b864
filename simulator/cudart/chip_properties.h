/* The chips that can be simulated, as the CUDA runtime describes them. */
#ifndef SIM_CUDART_CHIP_H
#define SIM_CUDART_CHIP_H

#include <stddef.h>

struct chip {
    const char *name, *target, *product; /* name, target: values of NVFP4_SIMULATE_CHIP */
    int major, minor;                    /* compute capability */
    int sms;
    size_t memory_bytes;
    int shared_bytes, shared_sm_bytes; /* for a block that opts in; for an SM */
    int sm_threads, sm_blocks;
    int l2_bytes;
    int copy_engines;        /* assumed; at least 2, which copy in both directions at once */
    int processing_clusters; /* GPCs that the SMs are divided into; 0: not known */
    int cluster_ctas;        /* most CTAs in a cluster */
};

/* The chip of NVFP4_SIMULATE_CHIP, else of runtime_default_major, else the one that the program's fat binaries
 * have PTX for, else an H200.  An unknown name ends the process. */
const struct chip *runtime_chip(void);

#endif
