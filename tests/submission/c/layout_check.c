/* Prints results of the descriptor headers and core/scale_layout.h for tests.  A line of input asks for
 *
 *   tcgen05 ADDRESS M N                     descriptors: a swizzled tile, a scale tile, an M x N instruction
 *   wgmma ADDRESS LEADING STRIDE SWIZZLE    the matrix descriptor of these fields
 *   wgmma_tile ADDRESS                      the matrix descriptor of a swizzled tile
 *   wgmma_core ADDRESS ALONG_K ALONG_ROWS   the matrix descriptor of core matrices
 *   scale LAYOUT ROW GROUP GROUPS           offset of a scale factor
 *   word WORD                               row of a word of a scale tile, and offset of that row's word
 *   batch LAYOUT ROWS GROUPS                bytes of a batch of scale factors
 *
 * and gets a line of hexadecimal numbers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../../submission/core/scale_layout.h"
#include "../../../submission/gpu/instructions/tcgen05_descriptors.h"
#include "../../../submission/gpu/instructions/wgmma_descriptors.h"

static void print(const char *what, const uint32_t *x) {
    if (strcmp(what, "tcgen05") == 0) {
        printf("%" PRIx64 " %" PRIx64 " %" PRIx32 "\n", swizzled_tile_descriptor(x[0]),
               scale_tile_descriptor(x[0]), nvfp4_instruction_descriptor(x[1], x[2]));
    } else if (strcmp(what, "wgmma") == 0) {
        printf("%" PRIx64 "\n", wgmma_matrix_descriptor(x[0], x[1], x[2], x[3]));
    } else if (strcmp(what, "wgmma_tile") == 0) {
        printf("%" PRIx64 "\n", wgmma_swizzled_tile_descriptor(x[0]));
    } else if (strcmp(what, "wgmma_core") == 0) {
        printf("%" PRIx64 "\n", wgmma_core_matrix_descriptor(x[0], x[1], x[2]));
    } else if (strcmp(what, "scale") == 0) {
        printf("%" PRIx64 "\n", (uint64_t)scale_offset((int32_t)x[0], x[1], x[2], x[3]));
    } else if (strcmp(what, "word") == 0) {
        int64_t row = scale_word_row(x[0]);
        printf("%" PRIx64 " %" PRIx32 "\n", (uint64_t)row, scale_word_at(0, (int)row));
    } else if (strcmp(what, "batch") == 0) {
        printf("%" PRIx64 "\n", (uint64_t)scale_batch_bytes((int32_t)x[0], x[1], x[2]));
    } else {
        printf("unknown: %s\n", what);
    }
}

int main(void) {
    char line[128], what[16];
    while (fgets(line, sizeof line, stdin) != NULL) {
        uint32_t x[4] = {0};
        if (sscanf(line, "%15s %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32, what, &x[0], &x[1], &x[2],
                   &x[3]) > 1) {
            print(what, x);
        }
    }
    return 0;
}
