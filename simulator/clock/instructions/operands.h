/* When an instruction's operands and results are ready, and the pipe that it uses. */
#ifndef SIM_CLOCK_OPERANDS_H
#define SIM_CLOCK_OPERANDS_H

#include "clock/timing.h"

struct cost {
    enum pipe pipe; /* PIPES: none */
    ticks latency, interval;
};

/* Returns when the operands from `first` on are ready; includes results, since results of one register come in
 * order. */
ticks time_operands_ready(const struct warp *warp, const struct split *split, const struct insn *insn,
                          uint32_t first, enum pipe pipe);
void time_results_ready(struct warp *warp, const struct split *split, const struct insn *insn, ticks ready,
                        enum pipe pipe);
struct cost time_cost(const struct warp *warp, const struct insn *insn);
/* Shuffles, votes and reductions: an SM's load-store unit takes them one after another. */
ticks time_lsu_interval(const struct chip *chip, enum clock_family family);
ticks time_lsu_latency(const struct chip *chip, enum clock_family family);

#endif
