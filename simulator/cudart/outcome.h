/* Reports of a process besides the results of its calls: suppressions, JSON, counters, the status for `ptxsim
 * run`. */
#ifndef SIM_CUDART_OUTCOME_H
#define SIM_CUDART_OUTCOME_H

#include "sim.h"

/* Call once the simulator exists: reads the suppressions and writes the reports at exit.  Ends the
 * process if a file that a variable names cannot be read.  Under `ptxsim run`, reports survive a signal, and
 * `look` is called now and then while a launch runs. */
void outcome_begin(struct sim *sim, void (*look)(struct sim *));
/* Where `ptxsim run` reads how far a launch has come; NULL without it. */
struct sim_progress *outcome_progress(void);
/* Call before a launch.  With `ptxsim run --shrink`, and unless an earlier launch has shown a finding,
 * looks for the smallest set of delays that shows a finding of this launch.  True if there is a result to
 * print. */
bool outcome_shrink(struct sim *sim, struct sim_module *module, const char *kernel,
                    const struct sim_launch_attributes *attributes);
/* Call after each launch, with its findings held: updates the status that `ptxsim run` reads. */
void outcome_update(const struct sim *sim);

#endif
