/* The smallest program that uses the C library: C = silu(A B1^T) * (A B2^T) for a small problem in host memory.
 *
 *     make install PREFIX=$HOME/.local
 *     export PKG_CONFIG_PATH=$HOME/.local/lib/pkgconfig
 *     cc examples/minimal.c $(pkg-config --cflags --libs custom_kernel) -Wl,-rpath,$HOME/.local/lib -o minimal
 */
#include <custom_kernel.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { M = 32, N = 48, K = 256, GROUP = 16, ALIGNMENT = 16 };

/* Bytes of two e2m1 codes, and e4m3 scale factors. */
enum { ONE_ONE = 0x22, HALF_HALF = 0x11, SCALE_ONE = 0x38, SCALE_QUARTER = 0x28 };
/* Every element of A is 1/4, of B1 1, of B2 1/2: silu(K / 4) * (K / 8) = 64 * 32, exact in fp16. */
enum { EXPECTED_FP16 = 0x6800 };

static void *filled(size_t bytes, int value) {
    void *memory = aligned_alloc(ALIGNMENT, bytes);
    if (memory == NULL) {
        perror("aligned_alloc");
        exit(EXIT_FAILURE);
    }
    return memset(memory, value, bytes);
}

int main(void) {
    uint16_t *c = filled(sizeof *c * M * N, 0);
    struct custom_kernel_args args = {
        .struct_bytes = sizeof args,
        .backend = CUSTOM_KERNEL_BACKEND_AUTO,
        .device = CUSTOM_KERNEL_DEVICE_HOST,
        .scale_layout = CUSTOM_KERNEL_SCALES_ROWS,
        .m = M,
        .n = N,
        .k = K,
        .l = 1,
        .a = filled((size_t)M * K / 2, ONE_ONE),
        .b1 = filled((size_t)N * K / 2, ONE_ONE),
        .b2 = filled((size_t)N * K / 2, HALF_HALF),
        .sfa = filled((size_t)M * K / GROUP, SCALE_QUARTER),
        .sfb1 = filled((size_t)N * K / GROUP, SCALE_ONE),
        .sfb2 = filled((size_t)N * K / GROUP, SCALE_ONE),
        .c = c,
    };
    int32_t status = custom_kernel(&args);
    if (status != CUSTOM_KERNEL_OK) {
        fprintf(stderr, "%s: %s\n", custom_kernel_status_name(status), custom_kernel_message());
        return EXIT_FAILURE;
    }
    for (int i = 0; i < M * N; i++) {
        if (c[i] != EXPECTED_FP16) {
            fprintf(stderr, "c[%d] is %#x; expected %#x\n", i, c[i], EXPECTED_FP16);
            return EXIT_FAILURE;
        }
    }
    uint32_t version = custom_kernel_version();
    printf("libcustom_kernel %u.%u.%u: all %d elements are 2048\n", version >> 16, version >> 8 & 0xff,
           version & 0xff, M * N);
    return EXIT_SUCCESS; /* the system frees the memory */
}
