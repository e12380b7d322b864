/* What a process tells of its simulator besides the calls' results. */
#ifndef SIM_CUDART_OUTCOME_H
#define SIM_CUDART_OUTCOME_H

#include "sim.h"

/* After the simulator was made: reads the suppressions, and tells of everything else at exit.  Ends the process
 * where a file that a variable names cannot be read. */
void outcome_begin(struct sim *sim);
/* Before a launch, on memory as it is: looks for the smallest set of delays that shows a finding of it, where
 * `ptxsim run --shrink` asks for that and no earlier launch has shown one.  Whether there is something to
 * print. */
bool outcome_shrink(struct sim *sim, struct sim_module *module, const char *kernel,
                    const struct sim_launch_attributes *attributes);
/* After each launch: `ptxsim run` is told what there is. */
void outcome_update(const struct sim *sim);

#endif
