/* The copy engine, and the network between the CTAs of a cluster. */
#include "timing.h"

ticks time_copy_start(struct run *run, bool of_memory) {
    struct timing *timing = run->launch->timing;
    struct sm_time *sm = sm_of(run->cta);
    sm->copies += of_memory;
    return booked(&sm->copy_engine, timing->issued, timing->chip.copy_engine_interval);
}

ticks time_engine_read(struct run *run, ticks start, uint64_t bytes) {
    const struct chip *chip = &run->launch->timing->chip;
    return start + chip->copy_read_latency + rate_ticks(chip->sm_store_rate, bytes);
}

ticks time_remote(struct run *run, uint64_t bytes) {
    struct timing *timing = run->launch->timing;
    ticks length = rate_ticks(timing->chip.remote_rate, bytes);
    return booked(&sm_of(run->cta)->remote, timing->issued, length) + length + timing->chip.remote_latency;
}
