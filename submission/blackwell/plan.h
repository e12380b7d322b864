/* Choosing a configuration: host only, pure, tested without a GPU. */
#ifndef BLACKWELL_PLAN_H
#define BLACKWELL_PLAN_H

#include "config.h"

extern const struct blackwell_config blackwell_configs[];
extern const int blackwell_config_count;

/* CTAs of a configuration: whole clusters, the last ones maybe partly outside. */
int64_t blackwell_ctas(const struct blackwell_config *config, int64_t m, int64_t n, int64_t l);

/* What a plan is predicted to cost, in picoseconds: waves of CTAs, one an SM, times the stages of one, each as
 * long as its copies or its products take, whichever is longer; and for each wave a start, an end and, where K
 * is split, the exchange of sums.  INT64_MAX where a share of K would be empty, or no cluster can run. */
int64_t blackwell_plan_cost(const struct blackwell_config *config, int64_t m, int64_t n, int64_t k, int64_t l,
                            int clusters_at_once);

/* How many clusters run at once where SMs lie as they are taken to on a B200, a CTA on each. */
int blackwell_clusters_at_once(const struct blackwell_config *config, int sms);

/* The index of the cheapest configuration, of equals the first one listed; clusters of each that run at once.
 */
int blackwell_choose(int64_t m, int64_t n, int64_t k, int64_t l, const int *clusters_at_once);

/* The index of a configuration by name, or -1. */
int blackwell_config_named(const char *name);

#endif
