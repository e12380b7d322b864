/* What the parts of the blackwell backend run: members of its struct backend, besides `run`. */
#ifndef BLACKWELL_RUN_H
#define BLACKWELL_RUN_H

#include "../core/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

int32_t blackwell_run_grouped(const struct problem *groups, int64_t count);
int32_t blackwell_check_grouped(const struct problem *groups, int64_t count);
int32_t blackwell_run_extended(const struct problem *problem);
int32_t blackwell_run_experts(const struct experts *experts);
int32_t blackwell_run_quantize(const struct quantization *quantization);
int32_t blackwell_run_route(const struct routing *routing);
int32_t blackwell_run_combine(const struct combination *combination);
int32_t blackwell_pad(const struct problem *problem, const struct padded_rows *rows);

#ifdef __cplusplus
}
#endif

#endif
