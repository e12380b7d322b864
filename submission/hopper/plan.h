/* Choosing a configuration: host only, pure, tested without a GPU. */
#ifndef HOPPER_PLAN_H
#define HOPPER_PLAN_H

#include "config.h"

extern const struct hopper_config hopper_configs[];
extern const int hopper_config_count;

/* What a plan costs: waves of CTAs times the main loop of one, in picoseconds.
 *
 * One CTA fits an SM, so `sms` CTAs run at a time and the last wave counts whole.  A CTA's work is its tile,
 * the expansion of its weights and the copies of its activations, for its share of K, and the exchange of sums.
 */
int64_t hopper_plan_cost(const struct hopper_config *config, int64_t m, int64_t n, int64_t stages_k, int64_t l,
                         int sms);

/* The index of the cheapest configuration; among equals the larger tile, which reads less, then the first
 * listed. */
int hopper_choose(int64_t m, int64_t n, int64_t stages_k, int64_t l, int sms);

/* The index of a configuration by name, or -1. */
int hopper_config_named(const char *name);

#endif
