/* What a report says besides the findings themselves. */
#ifndef SIM_REPORT_ADVICE_H
#define SIM_REPORT_ADVICE_H

#include "sim.h"

/* The PTX rule of a kind of finding, what chips do, and how to mend it; returns `to`. */
const char *advice_line(const char *kind, char *to, size_t room);
/* A C++ kernel's name without its parameters, and of its templates' arguments only numbers; returns `to`. */
const char *short_name(const char *mangled, char *to, size_t room);

#endif
