/* Permuting scale factors into the blocked layout, which is the only one that the GEMMs read: the kernel's
 * parameters. */
#ifndef GPU_PERMUTE_SCALES_H
#define GPU_PERMUTE_SCALES_H

#include <stdint.h>

#include "../core/scale_layout.h"

#define PERMUTE_SCALES_TENSORS   3
#define PERMUTE_SCALES_TILES     2 /* tiles of a thread, along K: faster than 1, 4 and 8 on an H200 */
#define PERMUTE_SCALES_THREADS   (2 * SCALE_TILE_WORDS) /* a thread for each word of two tiles */
#define PERMUTE_SCALES_CTA_TILES (PERMUTE_SCALES_THREADS / SCALE_TILE_WORDS * PERMUTE_SCALES_TILES)

/* The tensors share K, their layout and the number of batches.  Passed by value. */
struct permute_scales_params {
    struct {
        const uint8_t *from; /* [batch] of rows x groups scale factors */
        uint8_t *to;         /* [batch][ceil(rows / 128)][tiles_k][512] */
        int64_t rows;
    } tensors[PERMUTE_SCALES_TENSORS];
    int64_t groups;  /* K / 16 */
    int64_t tiles_k; /* scale tiles along K to write, at least groups / 4; zeros past the end of K */
    int64_t batches;
    int32_t count; /* number of tensors */
    int32_t scale_layout;
};

#endif
