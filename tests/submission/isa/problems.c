/* Runs problems of the dual GEMM through the C ABI on the CPU: reads each as seven int64 (m, n, k, l, scale
 * layout, bytes of sfa, bytes of sfb1) and the six inputs, writes C; until the input ends. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "submission/custom_kernel.h"

enum { M, N, K, L, LAYOUT, SFA_BYTES, SFB_BYTES, SIZES };

int main(void) {
    int64_t sizes[SIZES];
    while (fread(sizes, sizeof sizes, 1, stdin) == 1) {
        const size_t row = (size_t)(sizes[K] / 2), rows[2] = {(size_t)sizes[M], (size_t)sizes[N]};
        const size_t bytes[6] = {(size_t)sizes[L] * rows[0] * row, (size_t)sizes[L] * rows[1] * row,
                                 (size_t)sizes[L] * rows[1] * row, (size_t)sizes[SFA_BYTES],
                                 (size_t)sizes[SFB_BYTES],         (size_t)sizes[SFB_BYTES]};
        const size_t outputs = (size_t)sizes[L] * rows[0] * rows[1];
        void *tensors[6], *c = malloc(outputs * 2);
        for (int i = 0; i < 6; i++) {
            tensors[i] = malloc(bytes[i]);
            if (tensors[i] == NULL || fread(tensors[i], bytes[i], 1, stdin) != 1) {
                return 2;
            }
        }
        struct custom_kernel_args args = {
            .struct_bytes = sizeof args,
            .backend = CUSTOM_KERNEL_BACKEND_CPU,
            .device = CUSTOM_KERNEL_DEVICE_HOST,
            .scale_layout = (int32_t)sizes[LAYOUT],
            .m = sizes[M],
            .n = sizes[N],
            .k = sizes[K],
            .l = sizes[L],
            .a = tensors[0],
            .b1 = tensors[1],
            .b2 = tensors[2],
            .sfa = tensors[3],
            .sfb1 = tensors[4],
            .sfb2 = tensors[5],
            .c = c,
        };
        if (custom_kernel(&args) != CUSTOM_KERNEL_OK) {
            fprintf(stderr, "%s\n", custom_kernel_message());
            return 1;
        }
        if (fwrite(c, 2, outputs, stdout) != outputs) {
            return 2;
        }
        for (int i = 0; i < 6; i++) {
            free(tensors[i]);
        }
        free(c);
    }
    return 0;
}
