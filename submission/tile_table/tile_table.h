/* What the program prints of each backend; JSON objects. */
#ifndef TILE_TABLE_H
#define TILE_TABLE_H

#include <stdint.h>

/* A problem, and the SMs of the chip that it is to run on. */
struct tile_question {
    int64_t m, n, k, l;
    int sms;
};

/* The backend's tiles and the costs that its selection counts with. */
void print_hopper_tiles(void);
void print_blackwell_tiles(void);
void print_geforce_tiles(void);

/* The tile that the backend selects for a problem, and its grid and predicted time. */
void print_hopper_selection(const struct tile_question *question);
void print_blackwell_selection(const struct tile_question *question);
void print_geforce_selection(const struct tile_question *question);

#endif
