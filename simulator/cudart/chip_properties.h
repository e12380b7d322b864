/* The chips that a program can be run on, as the CUDA runtime describes them. */
#ifndef SIM_CUDART_CHIP_H
#define SIM_CUDART_CHIP_H

#include <stddef.h>

struct chip {
    const char *name, *target, *product; /* name, target: what NVFP4_SIMULATE_CHIP may say */
    int major, minor;                    /* compute capability */
    int sms;
    size_t memory_bytes;
    int shared_bytes, shared_sm_bytes; /* of a block that has opted in; of an SM */
    int sm_threads, sm_blocks;
    int l2_bytes;
    int processing_clusters; /* that the SMs are divided into; 0: not known */
    int cluster_ctas;        /* at most in a cluster */
};

/* By NVFP4_SIMULATE_CHIP, else as the program has said, else as its fat binaries have PTX for, else an H200.  A
 * name that is no chip's ends the process. */
const struct chip *runtime_chip(void);

#endif
