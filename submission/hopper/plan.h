/* Choosing a configuration: host only, pure, tested without a GPU. */
#ifndef HOPPER_PLAN_H
#define HOPPER_PLAN_H

#include "config.h"

extern const struct hopper_config hopper_configs[];
extern const int hopper_config_count;

/* What a plan costs: waves of CTAs times the work of one, in units of features x tokens of C.
 *
 * One CTA fits an SM, so `sms` CTAs run at a time and the last wave counts whole.  A CTA's work is its tile
 * and, for each feature, the expansion of its weights.  K is the same for all. */
int64_t hopper_plan_cost(const struct hopper_config *config, int64_t m, int64_t n, int64_t l, int sms);

/* The index of the cheapest configuration; among equals the larger tile, which reads less, then the first
 * listed. */
int hopper_choose(int64_t m, int64_t n, int64_t l, int sms);

/* How idle SMs help where `tiles` tiles leave some of `sms` idle; no helpers where that gains nothing. */
struct helping hopper_helping(int64_t tiles, int64_t stages_k, int sms);

/* The index of a configuration by name, or -1. */
int hopper_config_named(const char *name);

#endif
