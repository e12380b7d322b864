/* The extended GEMM's compiled kernels, for the host side. */
#ifndef HOPPER_EXTENDED_KERNELS_H
#define HOPPER_EXTENDED_KERNELS_H

#include <cuda.h>

#include "../../gpu/gpu_extended.h"
#include "../hopper_kernels.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Passed by value.  `interleave`: rows of gate, then of up, in turn in one tensor; 0 for two tensors or a plain
 * product.  `correction` undoes the powers of two that the operands carry. */

/* `gemm`'s n is the number of rows of the tensor b1. */
struct hopper_extended_params {
    struct hopper_dual_gemm_params gemm;
    struct extended_params epilogue;
    int32_t interleave;
    float correction;
};

/* `schedule` has the same `gemm`. */
struct hopper_extended_persistent_params {
    struct hopper_extended_params extended;
    struct hopper_persistent_params schedule;
};

/* For tiles whose CTAs have equal shares. */
struct hopper_extended_shares_params {
    struct hopper_extended_params extended;
    struct hopper_shares_params shares;
};

/* The columns of C of a narrow tile's warps.  2^unit_bits warps along N share `span` columns; each has `subs`
 * times 8, where each 8 are runs of 2^run_bits columns, `step` columns apart. */
struct narrow_columns {
    int32_t unit_bits, span, subs, run_bits, step;
};

/* `gemm`'s n counts columns of C, its c is not used, and b2 and sfb2 are b1 and sfb1 if all weights are there.
 */
struct hopper_extended_narrow_params {
    struct hopper_narrow_params gemm;
    struct extended_params epilogue;
    struct narrow_columns columns;
    int32_t interleave;
    float correction;
};

#define NARROW_IN_PAIR 2 /* vectors of sums that stay together */

/* Dequantized to fp16, e2m1 values carry 2^-14; with their scale factors dequantized to bf16, 2^-8. */
static inline float hopper_correction(int32_t a_type) {
    return a_type == CUSTOM_KERNEL_A_NVFP4 ? 0x1p28f : a_type == CUSTOM_KERNEL_A_FP16 ? 0x1p14f : 0x1p8f;
}

/* The kernel of configuration number `index` of HOPPER_CONFIGS for an A of type `a_type`, or NULL.  Its
 * parameters: the tensor maps of A in 16 bits, B1 and B2, of interleaved rows [piece][row][K], and struct
 * hopper_extended_params; for TILE_AFTER_TILE, struct hopper_extended_persistent_params, with a CTA
 * an SM. An A of fp16 is multiplied as one dequantized to it. */
const void *hopper_extended_gemm_kernel(int index, int a_type);

/* The same for EQUAL_SHARES alone. */
const void *hopper_extended_shares_kernel(int index, int a_type);

/* Its parameters: struct dequantize_params; `a` has 16 bits an element.  A thread writes a unit of 16 bytes. */
const void *hopper_arrange_kernel(void);
#define ARRANGE_THREADS 256

/* The kernel of narrow tile number `index` whose K is shared by `split_k` CTAs, for an A of type `a_type`, with
 * struct hopper_extended_narrow_params. */
const void *hopper_extended_narrow_kernel(int index, int split_k, int a_type);

#ifdef __cplusplus
}
#endif

#endif
