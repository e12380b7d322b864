/* The interface of a fuzz target: libFuzzer's, which fuzz_driver.c can run too. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Runs one input; a fault ends the process. Returns 0, or -1 if the input is not worth keeping. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
/* Optional: called once, before all inputs. */
int LLVMFuzzerInitialize(int *argc, char ***argv);
/* Optional: changes an input in place, up to `room` bytes, and returns its size. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);
/* Mutations of bytes that are independent of the target. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);

/* Choices made by an input: its bytes in order, then pseudo-random numbers derived from them. */
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
