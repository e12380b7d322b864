/* The JSON objects that the program prints for each backend. */
#ifndef TILE_TABLE_H
#define TILE_TABLE_H

#include <stdint.h>

/* A problem, and the number of SMs of the chip that it runs on. */
struct tile_question {
    int64_t m, n, k, l;
    int sms;
};

/* The backend's tiles and what they take. */
void print_hopper_tiles(void);
void print_blackwell_tiles(void);
void print_geforce_tiles(void);

/* The tile that the backend selects for a problem, and its grid and predicted time. */
void print_hopper_selection(const struct tile_question *question);
void print_blackwell_selection(const struct tile_question *question);
void print_geforce_selection(const struct tile_question *question);

#endif
