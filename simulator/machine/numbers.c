/* Hash tables with open addressing (numbers.h). */
#include "numbers.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 16

/* The index of a key, or of the free entry for it.  Keys with neighbouring major words stay neighbours: a
 * cluster mostly meets others in the order of their numbers. */
static uint32_t place_of(const struct numbers *numbers, struct number_key key) {
    const uint64_t golden = 0x9e3779b97f4a7c15u; /* Knuth's multiplicative hash */
    uint32_t at = (uint32_t)(key.major ^ key.minor * golden >> 32) & (numbers->room - 1);
    while (numbers->key[at].minor != 0 &&
           (numbers->key[at].major != key.major || numbers->key[at].minor != key.minor)) {
        at = (at + 1) & (numbers->room - 1);
    }
    return at;
}

uint32_t number_of(const struct numbers *numbers, uint64_t major, uint64_t minor) {
    return numbers->room == 0 ? 0 : numbers->value[place_of(numbers, (struct number_key){major, minor})];
}

static bool grow(struct numbers *numbers) {
    struct numbers grown = {.room = numbers->room == 0 ? FIRST_ROOM : 2 * numbers->room,
                            .count = numbers->count};
    grown.key = calloc(grown.room, sizeof *grown.key);
    grown.value = calloc(grown.room, sizeof *grown.value);
    if (grown.key == NULL || grown.value == NULL) {
        numbers_free(&grown);
        return false;
    }
    for (uint32_t i = 0; i < numbers->room; i++) {
        if (numbers->key[i].minor != 0) {
            uint32_t at = place_of(&grown, numbers->key[i]);
            grown.key[at] = numbers->key[i];
            grown.value[at] = numbers->value[i];
        }
    }
    numbers_free(numbers);
    *numbers = grown;
    return true;
}

uint32_t *number_at(struct numbers *numbers, uint64_t major, uint64_t minor) {
    if (2 * (numbers->count + 1) > numbers->room && !grow(numbers)) {
        return NULL;
    }
    const struct number_key key = {major, minor};
    uint32_t at = place_of(numbers, key);
    if (numbers->key[at].minor == 0) {
        numbers->key[at] = key;
        numbers->value[at] = 0;
        numbers->count++;
    }
    return &numbers->value[at];
}

void numbers_free(struct numbers *numbers) {
    free(numbers->key);
    free(numbers->value);
    *numbers = (struct numbers){.count = 0};
}
