/* Lines of the kernel's source for a finding, if the file exists. */
#ifndef SIM_REPORT_EXCERPT_H
#define SIM_REPORT_EXCERPT_H

#include <stdio.h>

/* `source` of a finding: "FILE:LINE" or "FILE:LINE inlined at FILE:LINE".  Prints the line at each place. */
void print_excerpt(const char *source, FILE *to);

#endif
