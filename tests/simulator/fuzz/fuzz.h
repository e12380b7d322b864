/* A fuzz target: libFuzzer's interface, which fuzz_driver.c also runs where there is no libFuzzer. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Runs one input; a fault ends the process.  0, or -1 where the input is of no use. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Called once before all; a target need not have it. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
/* Changes an input in place, at most `room` bytes long; returns its size.  A target need not have it. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);
/* The mutations of bytes that know nothing of the target. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

/* Choices that an input makes: its bytes in order, then numbers that follow from them. */
struct choices {
    const uint8_t *at;
    size_t left;
    uint64_t state;
};

static inline struct choices choices_of(const uint8_t *data, size_t size) {
    struct choices choices = {data, size, 0xcbf29ce484222325u};
    for (size_t i = 0; i < size; i++) {
        choices.state = (choices.state ^ data[i]) * 0x100000001b3u; /* FNV-1a */
    }
    choices.state |= 1;
    return choices;
}

static inline uint64_t choose(struct choices *choices, uint64_t below) {
    uint64_t value = 0;
    size_t bytes = below <= 0x100 ? 1 : below <= 0x10000 ? 2 : 8;
    if (choices->left >= bytes) {
        memcpy(&value, choices->at, bytes);
        choices->at += bytes;
        choices->left -= bytes;
    } else {
        choices->left = 0;
        choices->state ^= choices->state >> 12; /* xorshift64* (Vigna 2016) */
        choices->state ^= choices->state << 25;
        choices->state ^= choices->state >> 27;
        value = choices->state * 0x2545f4914f6cdd1du >> 8;
    }
    return value % below;
}

#endif
