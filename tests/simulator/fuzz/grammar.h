/* Mutations that know a little of PTX. */
#ifndef GRAMMAR_H
#define GRAMMAR_H

#include <stddef.h>

/* The lines of a folder's PTX files join those that are put into texts; anything else is passed over. */
void grammar_read_lines(const char *folder);
/* Changes a text in place, at most `room` bytes long; returns its size. */
size_t grammar_mutate(char *text, size_t size, size_t room, unsigned seed);

#endif
