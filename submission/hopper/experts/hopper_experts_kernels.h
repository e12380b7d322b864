/* The compiled kernels for experts, for the host side. */
#ifndef HOPPER_EXPERTS_KERNELS_H
#define HOPPER_EXPERTS_KERNELS_H

#include <cuda.h>

#include "../../gpu/experts/gpu_experts.h"
#include "../../gpu/gpu_extended.h"
#include "../hopper_kernels.h"
#include "hopper_experts_config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Passed by value. */
struct hopper_experts_params {
    struct expert_tokens tokens;
    struct extended_params epilogue; /* scales are arrays, [expert]; m is the number of rows of A in all */
    const uint8_t *sfb1, *sfb2;
    int64_t sfb_expert_bytes;  /* from one expert's scale factors of B1, or of B2, to the next one's */
    int32_t b_rows;            /* rows of an expert's tensor b1 */
    int32_t scale_words;       /* of a row: K / 64 */
    int32_t scales_by_rows;    /* layout of sfb1 and sfb2 */
    int32_t interleave;        /* rows of gate, then of up, in turn in one tensor; 0: two tensors, or plain */
    int32_t tiles_n, stages_k; /* tiles along an expert's columns of C */
    float correction;          /* undoes the powers of two that the operands carry */
};

/* The dequantization of rows of A that belong to an expert. */
struct hopper_experts_dequantize_params {
    struct dequantize_params a;
    struct expert_tokens tokens;
    uint32_t rows, rows_of_cta; /* of A in all */
};

/* The order of an A of 16 bits, whose rows an index may name (hopper_arrange_kernel.cuh). */
struct hopper_experts_arrange_params {
    struct dequantize_params a;
    const int32_t *a_index; /* NULL: row i is of row i */
    int64_t a_rows;         /* of `a` */
};

/* The kernel of tile number `index` for an A of type `a_type`.  Its parameters: the tensor maps of A in fp16,
 * of B1 and of B2, a batch for each expert or for each piece of interleaved rows, and struct
 * hopper_experts_params. */
const void *hopper_experts_gemm_kernel(int index, int a_type);
const void *hopper_experts_dequantize_kernel(void); /* struct hopper_experts_dequantize_params */
const void *hopper_experts_arrange_kernel(void);    /* struct hopper_experts_arrange_params */

#ifdef __cplusplus
}
#endif

#endif
