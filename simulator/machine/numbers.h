/* Maps from keys of two words to numbers. */
#ifndef SIM_MACHINE_NUMBERS_H
#define SIM_MACHINE_NUMBERS_H

#include <stdint.h>

#define ONE_WORD 1 /* the minor word of keys that need only the major one */

struct numbers {
    struct number_key {
        uint64_t major, minor; /* major: its low bits should differ from key to key; minor 0: a free entry */
    } *key;
    uint32_t *value;
    uint32_t count, room; /* room: a power of two, more than half of it free */
};

/* The number of a key; 0: it is not there. */
uint32_t number_of(const struct numbers *numbers, uint64_t major, uint64_t minor);
/* The place of a key's number; a new key is added with 0.  NULL: no memory. */
uint32_t *number_at(struct numbers *numbers, uint64_t major, uint64_t minor);
void numbers_free(struct numbers *numbers);

#endif
