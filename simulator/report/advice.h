/* Explanations in reports: advice for each kind of finding, readable kernel names. */
#ifndef SIM_REPORT_ADVICE_H
#define SIM_REPORT_ADVICE_H

#include "sim.h"

/* The PTX rule behind a kind of finding, what chips do, and how to fix it; returns `to`. */
const char *advice_line(const char *kind, char *to, size_t room);
/* The name of a C++ kernel without parameters and with numeric template arguments only; returns `to`. */
const char *short_name(const char *mangled, char *to, size_t room);

#endif
