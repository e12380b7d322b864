/* The rules of custom_kernel.h that its two entry points share.  Internal. */
#ifndef CORE_CHECKS_H
#define CORE_CHECKS_H

#include <stdbool.h>

#include "backend.h"

/* K elements of one scale tile, and of one block-scaled tensor-core step (PTX ISA, tcgen05.mma, mxf4nvf4). */
#define K_MULTIPLE_ELEMS (SCALE_TILE_GROUPS * NVFP4_GROUP_ELEMS)

/* HW: TMA needs a 16-byte aligned global address (CUDA driver API, cuTensorMapEncodeTiled). */
#define POINTER_ALIGNMENT_BYTES 16

/* A caller's struct may be newer and longer than ours; no real one comes near this. */
#define MAX_STRUCT_BYTES 1024

/* A struct by its name, as ours and as the oldest caller knows it. */
struct struct_type {
    const char *name;         /* "custom_kernel_args" */
    size_t bytes;             /* ours */
    size_t oldest_bytes;      /* what a caller's holds at least, up to a member's end; the rest is zero */
    const char *oldest_lacks; /* in words: "queue"; NULL where oldest_bytes is all of it */
};

/* Copies a caller's struct of `bytes` bytes: what a shorter one than ours lacks is zero; a longer one passes if
 * what we do not know of is zero.  `argument` is what the caller calls it, `bytes_name` where it says its size.
 */
int32_t read_struct(const char *argument, const char *bytes_name, const struct struct_type *type,
                    const void *from, uint32_t bytes, void *copy);

int32_t check_enums(int32_t backend, int32_t device, int32_t scale_layout, const void *queue);

/* A group's number, where a tensor or a size belongs to none. */
#define NO_GROUP (-1)

/* "a", or "group[3].a", or where the member is "" "group[3]".  Groups have numbers below
 * CUSTOM_KERNEL_MAX_GROUPS; what is too long is cut. */
struct member_name {
    char text[32];
};
struct member_name member_name(int32_t group, const char *member);

int32_t check_extent(int32_t group, const char *name, int64_t value, int64_t least);
int32_t check_k(int32_t group, int64_t k);

struct tensor {
    const char *name;
    const void *pointer;
    int64_t bytes;
    int32_t group; /* or NO_GROUP */
};

/* rows_unit * ceil(rows / rows_unit) * row_bytes * l, or false if that overflows. */
bool tensor_bytes(int64_t rows, int64_t rows_unit, int64_t row_bytes, int64_t l, int64_t *bytes);

/* Rows of a scale tensor come in units of so many. */
static inline int64_t scale_rows_unit(int32_t scale_layout) {
    return scale_layout == CUSTOM_KERNEL_SCALES_BLOCKED ? SCALE_TILE_ROWS : 1;
}

/* n fp16 values, or -1 if that overflows. */
int64_t output_row_bytes(int64_t n);

int32_t check_pointer(const struct tensor *tensor);
int32_t check_pointer_aligned(const struct tensor *tensor, int alignment);

/* Whether they share a byte. */
bool overlap(const struct tensor *x, const struct tensor *y);

#endif
