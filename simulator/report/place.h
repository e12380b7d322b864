#ifndef SIM_REPORT_PLACE_H
#define SIM_REPORT_PLACE_H

#include "sim.h"

void print_string(FILE *to, const char *text); /* as JSON, with quotes */
/* Prints `, "name": "text"`. */
void print_member(FILE *to, const char *name, const char *text);
/* Prints `word`, a PTX line with its text, and the source line with its text. */
void print_place(const char *word, uint32_t ptx_line, const char *ptx, const char *source, FILE *to);
/* Prints `"shrunk": {...}, `, or nothing if nothing was shrunk (shrunk_report.c). */
void print_shrunk_json(const struct sim *sim, FILE *to);

#endif
