/* What the parts of the hopper backend run: members of its struct backend, besides `run`. */
#ifndef HOPPER_RUN_H
#define HOPPER_RUN_H

#include "../core/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

int32_t hopper_run_grouped(const struct problem *groups, int64_t count);
int32_t hopper_check_grouped(const struct problem *groups, int64_t count);
int32_t hopper_run_extended(const struct problem *problem);
int32_t hopper_run_experts(const struct experts *experts);
int32_t hopper_run_quantize(const struct quantization *quantization);
int32_t hopper_run_route(const struct routing *routing);
int32_t hopper_run_combine(const struct combination *combination);
int32_t hopper_pad(const struct problem *problem, const struct padded_rows *rows);

/* The predicted time in picoseconds of a group as a plain product; -1 if the extended GEMM lacks the tile that
 * the environment names. */
int64_t hopper_plain_product_ps(const struct problem *group, int sms);

#ifdef __cplusplus
}
#endif

#endif
