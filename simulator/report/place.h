#ifndef SIM_REPORT_PLACE_H
#define SIM_REPORT_PLACE_H

#include "sim.h"

void print_string(FILE *to, const char *text); /* of JSON, in quotes */
/* A line of PTX with its text, its source line and that one's text; `word` comes before. */
void print_place(const char *word, uint32_t ptx_line, const char *ptx, const char *source, FILE *to);
/* "shrunk": {...}, and a comma; nothing where nothing was shrunk (shrunk.c). */
void print_shrunk_json(const struct sim *sim, FILE *to);

#endif
