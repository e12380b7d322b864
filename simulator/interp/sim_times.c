/* Results of simulated time (sim.h): durations, resources, spans, what each launch waited for. */
#include "clock/timing.h"
#include "interp.h"

bool sim_time(const struct sim *sim, struct sim_time *time) {
    const struct timing *timing = sim->timing;
    if (timing == NULL) {
        return false;
    }
    const double ghz = (double)time_clock(timing) / 1000, kernel = (double)timing->kernel / TICKS,
                 all = (double)timing->before_end / TICKS;
    *time = (struct sim_time){timing->chip.name,  timing->chip.error, ghz, all, all / ghz / 1000, kernel,
                              kernel / ghz / 1000};
    return true;
}

const char *sim_resource_name(int resource) {
    static const char *const names[] = {"issue slots",
                                        "ALU",
                                        "FMA pipe",
                                        "special functions",
                                        "mma.sync",
                                        "shared memory",
                                        "tensor cores",
                                        "SM's port, loads",
                                        "SM's port, stores",
                                        "L2",
                                        "HBM"};
    return resource >= 0 && resource < SIM_RESOURCES ? names[resource] : NULL;
}

const char *sim_step_name(int step) {
    static const char *const names[SIM_STEPS] = {[SIM_STEP_START] = "starts of CTAs",
                                                 [SIM_STEP_BEFORE] = "the launch before",
                                                 [SIM_STEP_LOADS] = "loads of global memory",
                                                 [SIM_STEP_COPIES] = "latency of copies",
                                                 [SIM_STEP_PORT] = "queues at an SM's port",
                                                 [SIM_STEP_L2] = "queues at L2",
                                                 [SIM_STEP_HBM] = "queues at HBM",
                                                 [SIM_STEP_TENSOR] = "tensor cores",
                                                 [SIM_STEP_TMEM] = "tensor memory's loads and stores",
                                                 [SIM_STEP_REMOTE] = "other CTAs' shared memory",
                                                 [SIM_STEP_STORES] = "bulk stores",
                                                 [SIM_STEP_BARRIERS] = "barriers' wake-ups"};
    return step < 0 || step >= SIM_STEPS ? NULL : step >= SIM_STEP_WARPS ? "instructions" : names[step];
}

const char *sim_cost_name(int cost) {
    return cost == SIM_COST_RESULT ? "latency of its result"
           : cost == SIM_COST_TURN ? "issue slots and pipes"
           : cost == SIM_COST_NEXT ? "until the next one issues"
                                   : sim_step_name(cost);
}

bool sim_span(const struct sim *sim, size_t index, struct sim_span *span) {
    const struct timing *timing = sim->timing;
    const struct span *kept = timing == NULL ? NULL : timeline_span(timing, index);
    if (kept == NULL) {
        return false;
    }
    const double ticks_in_us = (double)time_clock(timing) * TICKS;
    *span = (struct sim_span){.launch = kept->launch,
                              .kernel = kept->launch < MAX_LAUNCHES && kept->launch < timing->launches
                                            ? timing->launch[kept->launch].kernel
                                            : "",
                              .name = kept->name,
                              .sm = kept->sm,
                              .cta = kept->cta,
                              .warp = kept->warp,
                              .start_us = (double)kept->from / ticks_in_us,
                              .us = (double)(kept->to - kept->from) / ticks_in_us,
                              .share = kept->share / 1024.0};
    return true;
}

uint64_t sim_spans_lost(const struct sim *sim) {
    return sim->timing == NULL ? 0 : timeline_lost(sim->timing);
}

bool sim_timed_launch(const struct sim *sim, size_t index, struct sim_timed_launch *launch) {
    const struct timing *timing = sim->timing;
    if (timing == NULL || index >= timing->launches || index >= MAX_LAUNCHES) {
        return false;
    }
    const struct timed_launch *listed = &timing->launch[index];
    const double ticks_in_us = (double)time_clock(timing) * TICKS;
    *launch = (struct sim_timed_launch){.kernel = listed->kernel,
                                        .start_us = (double)listed->start / ticks_in_us,
                                        .end_us = (double)listed->end / ticks_in_us};
    double length = listed->alone > 0 ? (double)listed->alone : 1;
    for (int i = 0; i < SIM_RESOURCES; i++) {
        double sms = i == SIM_L2 || i == SIM_HBM ? 1 : (double)timing->chip.sms;
        launch->busy[i] = (double)listed->busy[i] / length / sms;
        launch->busiest[i] = (double)listed->busiest[i] / length;
    }
    for (int i = 0; i < SIM_STEPS; i++) {
        launch->chain[i] = (double)listed->path.step[i] / TICKS;
    }
    memcpy(launch->lines, listed->lines, sizeof launch->lines);
    for (int i = 0; i < MAX_WARPS; i++) {
        double warps = (double)listed->ctas * TICKS;
        launch->lived[i] = (double)listed->lived[i] / warps;
        launch->bar[i] = (double)listed->waited[i][WAIT_BAR] / warps;
        launch->mbarrier[i] = (double)listed->waited[i][WAIT_MBARRIER] / warps;
        launch->cluster[i] = (double)listed->waited[i][WAIT_CLUSTER] / warps;
        launch->own[i] = (double)listed->waited[i][WAIT_ASYNC] / warps;
    }
    return true;
}

void sim_synchronize(struct sim *sim) {
    if (sim->timing != NULL) {
        time_host_waits(sim->timing);
    }
}
