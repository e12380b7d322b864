/* Times the ways to compute a call on the device, where a model only predicts which one is fastest.
 *
 * The environment variable NVFP4_TUNE turns it on (1) or off (0); without it bundles tune and the library does
 * not.  What is kept is the choice for a shape, never a result. */
#ifndef GPU_TUNER_H
#define GPU_TUNER_H

#include "gpu_cache.h"
#include "gpu_host.h"

enum { TUNER_MOST_WAYS = 4 };

/* Computes the problem in one of its ways. */
typedef int32_t tuner_run(const struct problem *problem, const void *ways, int way);

/* True if calls of m rows are to be tuned.  Fewer rows keep the model's choice, since their bits do not depend
 * on their number (custom_kernel.h). */
bool gpu_tunes(int64_t m);

/* The numbers of the ways worth timing, of `count` with these predicted times, the least first: those not much
 * above it, at most TUNER_MOST_WAYS.  INT64_MAX: no way.  Returns how many. */
int gpu_rank_ways(const int64_t *predicted_ps, int count, int ranked[TUNER_MOST_WAYS]);

/* The fastest of `count` ways: the one that the model prefers, the first, unless another is clearly faster.
 * Times them at the first call of the process with this key, which takes some milliseconds and writes C.
 * -1 on another queue than the default one, which a CUDA graph may be capturing so that nothing can be timed,
 * or if all places for choices are taken. */
int gpu_fastest_way(const struct problem *problem, const struct cache_key *key, tuner_run *run,
                    const void *ways, int count);

#endif
