/* The extended GEMM on the CPU backend: panels of B and the epilogue. */
#ifndef CPU_EXTENDED_EPILOGUE_H
#define CPU_EXTENDED_EPILOGUE_H

#include "kernel_set.h"

/* Columns of C in a panel: both halves' for a plain product, else one half's. */
int64_t extended_panel_cols(const struct extension *extension);

/* First row and number of rows of B in each half of a panel, for `cols` columns of C from first_col on. */
void extended_panel_rows(const struct extension *extension, int64_t first_col, int cols, int64_t first[2],
                         int present[2]);

/* Writes c, and sfc for NVFP4 output, for rows x cols of the tile at (first_row, first_col). */
void extended_epilogue(const struct problem *problem, const struct accumulators *accumulators,
                       int64_t first_row, int64_t first_col, int rows, int cols);

/* Writes zeros to a blocked sfc's padding rows, for the same columns. */
void extended_pad(const struct problem *problem, int64_t first_col, int cols);

#endif
