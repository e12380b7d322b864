/* Operands, results and pipes of one instruction, for what issues it and what follows its execution. */
#ifndef SIM_CLOCK_OPERANDS_H
#define SIM_CLOCK_OPERANDS_H

#include "clock/timing.h"

struct cost {
    enum pipe pipe; /* PIPES: none */
    ticks latency, interval;
};

/* All of the instruction's operands from `first` on, those that it writes as well: results come in order. */
ticks time_operands_ready(const struct warp *warp, const struct split *split, const struct insn *insn,
                          uint32_t first, enum pipe pipe);
void time_results_ready(struct warp *warp, const struct split *split, const struct insn *insn, ticks ready,
                        enum pipe pipe);
struct cost time_cost(const struct warp *warp, const struct insn *insn);
/* Of the load-store unit and what hangs on it: instructions that an SM takes one after another. */
ticks time_lsu_interval(const struct chip *chip, enum clock_family family);
ticks time_lsu_latency(const struct chip *chip, enum clock_family family);

#endif
