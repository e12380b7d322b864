/* Explanations in reports: advice for each kind of finding. */
#ifndef SIM_REPORT_ADVICE_H
#define SIM_REPORT_ADVICE_H

#include "sim.h"

/* The PTX rule behind a kind of finding, what chips do, and how to fix it; returns `to`. */
const char *advice_line(const char *kind, char *to, size_t room);

#endif
