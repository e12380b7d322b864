/* Signals that end a program under `ptxsim run`, and findings of launches that run long. */
#ifndef SIM_CUDART_INTERRUPTION_H
#define SIM_CUDART_INTERRUPTION_H

#include <stdatomic.h>

#include "sim.h"

/* The lock of the process's simulator.  Once such a signal has come, a thread that gives it back waits until
 * the signal takes its course. */
void process_lock(void);
void process_unlock(void);

/* From now on a signal that would end the process first ends the launch that runs; then `report` is called,
 * with the simulator locked, and the signal takes its course.  `*signal` becomes its number.  While a launch
 * runs long, `look` is called now and then. */
void interruption_begin(struct sim *sim, atomic_int *signal, void (*look)(struct sim *), void (*report)(void));

#endif
