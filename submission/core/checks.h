/* The rules of custom_kernel.h that several entry points share.  Internal. */
#ifndef CORE_CHECKS_H
#define CORE_CHECKS_H

#include <stdbool.h>

#include "backend.h"

/* K elements of a block of scale factors and of a block-scaled MMA (PTX ISA, tcgen05.mma kind::mxf4nvf4). */
#define K_MULTIPLE_ELEMS (SCALE_TILE_GROUPS * NVFP4_GROUP_ELEMS)

/* HW: TMA needs a 16-byte aligned global address (CUDA driver API, cuTensorMapEncodeTiled). */
#define POINTER_ALIGNMENT_BYTES 16

/* Longest struct accepted from a newer caller. */
#define MAX_STRUCT_BYTES 1024

/* The sizes of an argument struct that read_struct() accepts. */
struct struct_type {
    const char *name;         /* "custom_kernel_args" */
    size_t bytes;             /* size in this version of the library */
    size_t oldest_bytes;      /* the required members; those after them count as zero if missing */
    const char *oldest_lacks; /* names the members that may be missing, for messages; NULL for none */
};

/* Copies a caller's struct of `bytes` bytes to `copy`, so that later checks and the run see the same values.
 * Members that a shorter struct lacks become zero; a longer struct must be zero past our last member.  Messages
 * call the struct `argument` and its size `bytes_name`. */
int32_t read_struct(const char *argument, const char *bytes_name, const struct struct_type *type,
                    const void *from, uint32_t bytes, void *copy);

/* The members that all argument structs share. */
int32_t check_enums(int32_t backend, int32_t device, int32_t scale_layout, const void *queue);

/* `group` of a tensor or size outside the grouped GEMM. */
#define NO_GROUP (-1)

/* The name of an argument in messages: "a", "group[3].a", or "group[3]" for an empty member name.  Cut to the
 * size of `text`; group < CUSTOM_KERNEL_MAX_GROUPS. */
struct member_name {
    char text[32];
};
struct member_name member_name(int32_t group, const char *member);

/* value >= least */
int32_t check_extent(int32_t group, const char *name, int64_t value, int64_t least);
/* k is a multiple of NVFP4_GROUP_ELEMS */
int32_t check_k(int32_t group, int64_t k);

/* A tensor argument: its name in messages and the memory that it takes. */
struct tensor {
    const char *name;
    const void *pointer;
    int64_t bytes;
    int32_t group; /* the group that it belongs to, or NO_GROUP */
};

/* *bytes = round_up(rows, rows_unit) * row_bytes * l; false if that overflows. */
bool tensor_bytes(int64_t rows, int64_t rows_unit, int64_t row_bytes, int64_t l, int64_t *bytes);

/* The number of rows of a scale tensor is rounded up to a multiple of this. */
static inline int64_t scale_rows_unit(int32_t scale_layout) {
    return scale_layout == CUSTOM_KERNEL_SCALES_BLOCKED ? SCALE_TILE_ROWS : 1;
}

/* Bytes of a row of n fp16 values; -1 if that overflows. */
int64_t output_row_bytes(int64_t n);

/* The pointer is not NULL, is aligned (to POINTER_ALIGNMENT_BYTES, or to `alignment`), and its bytes lie within
 * the address space. */
int32_t check_pointer(const struct tensor *tensor);
int32_t check_pointer_aligned(const struct tensor *tensor, int alignment);

/* True if the tensors share a byte. */
bool overlap(const struct tensor *x, const struct tensor *y);

/* A tensor argument of a struct; `present`: the call uses it. */
struct member {
    struct tensor tensor;
    int64_t rows, rows_unit, row_bytes, batches;
    int alignment;
    bool present;
};

/* The tensor of a member of an argument struct. */
#define MEMBER(args, name) {#name, (args)->name, 0, NO_GROUP}

struct size {
    const char *name;
    int64_t value;
};

/* Checks the pointers of `count` members, and that those from number `outputs` on overlap no other.  `sizes`,
 * which end with a NULL name, are for the message about a tensor that is too large. */
int32_t check_members(struct member *all, int count, int outputs, const struct size *sizes);

/* The members of an activation as a caller gave them.  `gated`: it is of gate and up. */
int32_t check_activation(const struct activation *given, bool gated);
/* The activation that they stand for. */
struct activation complete_activation(const struct activation *given, bool gated);

/* Refuses a value that is not valid, with the value and what was expected. */
int32_t check_number(const char *name, float value, bool valid, const char *expected);
/* A pointer that the other arguments leave unused is NULL; `when`: "without RMSNorm". */
int32_t check_absent(const char *name, const void *pointer, const char *when);

#endif
