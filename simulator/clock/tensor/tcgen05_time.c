/* tcgen05: MMAs, copies into TMEM, and TMEM's loads and stores. */
#include "clock/timing.h"

#define WHOLE_ROWS 128 /* rows of A that an SM reads for an MMA of full height */

/* Time from the start of the MMA's interval to its result.  Published (chips/b200.json): half the height is
 * faster except in a pair, where part of B's path is hidden up to 128 columns. */
static ticks latency(const struct chip *chip, const struct tcgen05_shape *shape) {
    bool half = shape->m == (shape->pair ? 2u : 1u) * WHOLE_ROWS / 2;
    ticks columns = shape->n * chip->tcgen05_column;
    ticks scales = !shape->scaled ? 0
                   : shape->pair  ? chip->tcgen05_pair_scale_latency
                                  : chip->tcgen05_scale_latency;
    if (!shape->pair) {
        return scales + columns +
               (shape->a_in_tmem ? chip->tcgen05_latency_tmem
                : half           ? chip->tcgen05_latency_half
                                 : chip->tcgen05_latency);
    }
    if (!half) {
        return scales + columns +
               (shape->a_in_tmem ? chip->tcgen05_pair_latency_tmem : chip->tcgen05_pair_latency);
    }
    if (shape->a_in_tmem) {
        return scales + columns / 2 + chip->tcgen05_pair_latency_tmem_half;
    }
    ticks wide = chip->tcgen05_pair_latency_half + columns / 2;
    ticks narrow = chip->tcgen05_pair_latency_narrow + 3 * columns / 4;
    return scales + (wide < narrow ? wide : narrow);
}

/* An MMA takes the tensor cores for its sums or for reading its operands from shared memory, whichever is
 * longer.  A CTA of a pair reads its own rows of A and half of B. */
static ticks interval(const struct chip *chip, const struct tcgen05_shape *shape) {
    uint32_t rows = shape->pair ? shape->m / 2 : shape->m;
    uint32_t columns = shape->pair && rows < WHOLE_ROWS ? shape->n / 2 : shape->n;
    ticks sums = columns * chip->tcgen05_column;
    ticks a = (shape->pair ? chip->tcgen05_pair_read_a : chip->tcgen05_read_a) * rows / WHOLE_ROWS;
    ticks b = (shape->pair ? shape->n / 2 : shape->n) * chip->tcgen05_read_column;
    return shape->a_in_tmem ? sums : later(sums, a + b);
}

ticks time_tcgen05_mma(struct run *run, const struct tcgen05_shape *shape) {
    struct timing *timing = run->launch->timing;
    ticks start = booked(&sm_of(run->cta)->tensor, timing->issued, interval(&timing->chip, shape));
    timing->tensor_works = true;
    return start + latency(&timing->chip, shape);
}

ticks time_tcgen05_copy(struct run *run) {
    struct timing *timing = run->launch->timing;
    return booked(&sm_of(run->cta)->tensor, timing->issued, timing->chip.tcgen05_copy_interval) +
           timing->chip.tcgen05_copy_latency;
}

ticks time_tcgen05_access(struct run *run, uint32_t bytes) {
    struct timing *timing = run->launch->timing;
    struct part *part = &sm_of(run->cta)->part[run->warp->index % SM_PARTS];
    ticks length = rate_ticks(timing->chip.tcgen05_load_rate, bytes);
    return booked(&part->tmem, timing->issued, length) + length + timing->chip.tcgen05_load_latency;
}
