/* Simulated time in reports. */
#ifndef SIM_REPORT_TIMES_H
#define SIM_REPORT_TIMES_H

#include <stdio.h>

#include "sim.h"

/* A member "time" and a comma, or nothing without a chip. */
void time_json(const struct sim *sim, FILE *to);
/* Lines of text, or nothing. */
void time_text(const struct sim *sim, FILE *to);

#endif
