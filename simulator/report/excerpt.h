/* Lines of the kernel's source, where a finding tells of a place and the file is there. */
#ifndef SIM_REPORT_EXCERPT_H
#define SIM_REPORT_EXCERPT_H

#include <stdio.h>

/* `source` is a finding's: "FILE:LINE", or "FILE:LINE inlined at FILE:LINE"; of each place the line is printed.
 */
void print_excerpt(const char *source, FILE *to);

#endif
