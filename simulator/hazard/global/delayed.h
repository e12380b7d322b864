/* Delayed stores (delayed.c), as the record of global memory uses them. */
#ifndef SIM_HAZARD_DELAYED_H
#define SIM_HAZARD_DELAYED_H

#include "global_record.h"

/* A line as it was before a launch wrote to it. */
struct image {
    struct image *older; /* an earlier image of the same line */
    uint32_t launch, older_launch;
    uint64_t mask[RECORD_WORDS]; /* bytes that the launch has written */
    uint8_t bytes[RECORD_BYTES];
};

#define CHUNK_IMAGES 128

/* Images that one worker made for one launch. */
struct image_chunk {
    struct image_chunk *next; /* in the list of the launch */
    uint32_t count;
    struct image image[CHUNK_IMAGES];
};

/* The images of a line.  `newest` dangles once its launch is settled (known to every launch to come). */
struct images {
    struct image *newest;
    uint32_t launch; /* that made the newest */
};

/* Call before the running launch writes the bytes of `mask` in a line, of which only the first `valid`
 * bytes belong to the allocation.  False: no memory. */
bool delayed_note(struct images *images, const struct run *run, const uint8_t *memory, uint64_t valid,
                  const uint64_t mask[RECORD_WORDS]);

#endif
