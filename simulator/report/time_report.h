/* Simulated time in reports; both functions print nothing if no time is simulated. */
#ifndef SIM_REPORT_TIMES_H
#define SIM_REPORT_TIMES_H

#include <stdio.h>

#include "sim.h"

/* Prints `"time": {...}, `. */
void time_json(const struct sim *sim, FILE *to);

#endif
