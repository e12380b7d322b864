/* Mutations of PTX text that keep some of its structure. */
#ifndef GRAMMAR_H
#define GRAMMAR_H

#include <stddef.h>

/* Adds the lines of a folder's PTX files to those that mutations insert; other files are ignored. */
void grammar_read_lines(const char *folder);
/* Changes a text in place, up to `room` bytes, and returns its size. */
size_t grammar_mutate(char *text, size_t size, size_t room, unsigned seed);

#endif
