/* The layouts of scale factors that an operator takes (submission/scale_layouts.py has their definitions),
 * checked and brought to one of the library's two.  Internal. */
#ifndef TORCH_SCALE_FACTORS_H
#define TORCH_SCALE_FACTORS_H

#include "torch_operator.h"

enum factor_layout { FACTORS_LINEAR, FACTORS_128X4, FACTORS_8X4, FACTOR_LAYOUTS };
enum { LAYOUT_NOT_STATED = -1 };

/* "linear" of FACTORS_LINEAR. */
const char *layout_name(int32_t layout);

/* The scale factors of one operand. */
struct factors {
    const struct torch_tensor *tensor;
    const struct torch_tensor *codes; /* the operand: its dimensions but the last are the rows */
    bool by_expert; /* the first dimension of both counts experts, which have their own blocks; not a row */
    int32_t stated; /* enum factor_layout, or LAYOUT_NOT_STATED */
    int64_t rows;   /* set by check_factors() */
    enum factor_layout layout; /* set by check_factors() */
};

/* Checks dtype, shape, strides and device, and sets `rows` and `layout`: the stated one; else "swizzled128x4"
 * for five dimensions and "linear" for two, unless the rows are a multiple of 128, as then both fit. */
int32_t check_factors(struct factors *factors, int64_t groups);

/* The layout for the library, that of b's factors: converting costs a copy, and weights are large. */
int32_t library_layout(const struct factors *of_b);

/* The address of scale factors in the library's layout: the tensor's own, or that of a converted copy; and a
 * copy of plain factors that are not aligned to 16 bytes. */
int32_t factors_for_library(struct torch_call *call, const struct factors *factors, int64_t groups,
                            int32_t layout, void **data);

#endif
