/* What the CPU backend does with accumulators beyond the dual GEMM. */
#ifndef CPU_EXTENDED_H
#define CPU_EXTENDED_H

#include "kernel_set.h"

/* Columns of C in a panel: of a plain product those of both halves. */
int64_t extended_panel_cols(const struct extension *extension);

/* Rows of B that a panel's halves hold, of `cols` columns from first_col on: where each starts, and how many.
 */
void extended_panel_rows(const struct extension *extension, int64_t first_col, int cols, int64_t first[2],
                         int present[2]);

/* c, and sfc where there is one, of `rows` x `cols` of a tile whose first element is (first_row, first_col). */
void extended_epilogue(const struct problem *problem, const struct accumulators *accumulators,
                       int64_t first_row, int64_t first_col, int rows, int cols);

/* Zeros to sfc's rows past the last one, of the same columns. */
void extended_pad(const struct problem *problem, int64_t first_col, int cols);

#endif
