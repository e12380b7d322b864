/* Sets of launches: nearly always all launches before a number, and a few later ones. */
#include <stdlib.h>

#include "order.h"

#define WORD 64

bool known_has(const struct known *known, uint32_t number) {
    uint32_t word = number / WORD;
    return number < known->floor || (word >= known->first && word - known->first < known->words &&
                                     known->bits[word - known->first] >> number % WORD & 1);
}

/* Raises the floor over members that follow it without a gap, and drops the words below it. */
static void settle(struct known *known) {
    while (known->words > 0 && known_has(known, known->floor)) {
        known->floor++;
    }
    uint32_t over = known->floor / WORD - known->first; /* bits never start above the floor */
    over = over < known->words ? over : known->words;
    if (over > 0) {
        known->words -= over;
        memmove(known->bits, known->bits + over, known->words * sizeof *known->bits);
        known->first += over;
    }
}

static bool make_room(struct known *known, uint32_t word) {
    if (known->words == 0) {
        known->first = known->floor / WORD;
    }
    if (word - known->first < known->words) {
        return true;
    }
    uint32_t words = word - known->first + 1;
    uint64_t *grown = realloc(known->bits, words * sizeof *grown);
    if (grown == NULL) {
        return false;
    }
    memset(grown + known->words, 0, (words - known->words) * sizeof *grown);
    known->bits = grown;
    known->words = words;
    return true;
}

bool known_add(struct known *known, uint32_t number) {
    if (number == known->floor) {
        known->floor++;
    } else if (number > known->floor) {
        if (!make_room(known, number / WORD)) {
            return false;
        }
        known->bits[number / WORD - known->first] |= (uint64_t)1 << number % WORD;
    }
    settle(known);
    return true;
}

bool known_join(struct known *to, const struct known *from) {
    to->floor = to->floor > from->floor ? to->floor : from->floor;
    settle(to);
    for (uint32_t i = 0; i < from->words; i++) {
        for (uint64_t rest = from->bits[i]; rest != 0; rest &= rest - 1) {
            if (!known_add(to, WORD * (from->first + i) + (uint32_t)__builtin_ctzll(rest))) {
                return false;
            }
        }
    }
    return true;
}

bool known_copy(struct known *to, const struct known *from) {
    to->floor = 1;
    to->words = 0;
    return known_join(to, from);
}

void known_free(struct known *known) {
    free(known->bits);
    known->bits = NULL;
    known->words = 0;
}
