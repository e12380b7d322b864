/* Between the record of global memory and the stores held back. */
#ifndef SIM_HAZARD_DELAYED_H
#define SIM_HAZARD_DELAYED_H

#include "global_record.h"

/* A line as it was before a launch wrote to it. */
struct image {
    struct image *older; /* of the same line */
    uint32_t launch, older_launch;
    uint64_t mask[RECORD_WORDS]; /* what the launch has written */
    uint8_t bytes[RECORD_BYTES];
};

/* The newest image of a line; it is gone when its launch is settled. */
struct images {
    struct image *newest;
    uint32_t launch; /* of the newest */
};

/* The running launch is about to write bytes of a line; the first `valid` bytes at `memory` exist.  False: no
 * memory. */
bool delayed_note(struct images *images, const struct run *run, const uint8_t *memory, uint64_t valid,
                  const uint64_t mask[RECORD_WORDS]);
void delayed_free(struct submitted *submitted);
/* The images of the line that an address lies in, locked against other threads, and the address's place in the
 * line; NULL, and no lock, without any. */
struct line;
struct images *line_images(const struct sim *sim, uint64_t address, struct line **line, uint32_t *first);
void line_unlock(struct line *line);

#endif
