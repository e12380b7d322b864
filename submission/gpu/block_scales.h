/* Bringing plain rows of scale factors into the blocked layout: the kernel's parameters. */
#ifndef GPU_BLOCK_SCALES_H
#define GPU_BLOCK_SCALES_H

#include <stdint.h>

#include "../core/backend.h"

#define BLOCK_SCALES_THREADS    256
#define BLOCK_SCALES_TENSORS    3
#define BLOCK_SCALES_MAX_BLOCKS (1 << 16) /* its threads take as many words as there are */

/* The tensors share K and the number of batches.  Passed by value. */
struct block_scales_params {
    struct {
        const uint8_t *from; /* [batch][row][K / 16] */
        uint8_t *to;         /* [batch][row / 128][K / 64][512] */
        int64_t rows;
    } tensors[BLOCK_SCALES_TENSORS];
    int64_t tiles_k, batches;
};

#endif
