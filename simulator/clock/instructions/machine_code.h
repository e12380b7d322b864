/* Machine instructions that ptxas generated for a module's PTX, from a file that simulator/python/machine_code
 * writes. */
#ifndef SIM_CLOCK_MACHINE_CODE_H
#define SIM_CLOCK_MACHINE_CODE_H

#include <string.h>

#include "clock/timing.h"

#define HUNDREDTHS 100 /* the file's charges are in hundredths */

/* The record of an instruction; all 0 if it has no machine code of its own. */
struct machine_code {
    uint64_t order;      /* 1 + its place in the machine code; 0: none */
    ticks slots;         /* issue slots: its own, and of earlier machine instructions that no PTX claims */
    ticks before, after; /* from the issue before to its own; of a block's last, to the next block's first */
    ticks pipe[PIPES];   /* how long it uses each */
    uint64_t parameters; /* lines of the launch's parameters that it reads, a bit each */
    ticks beside;        /* how long it blocks arithmetic issue while an MMA with A in registers runs */
    uint8_t opens;       /* 1 + the scoreboard barrier that clears when its operands have been read; 0: none */
    uint8_t waits;       /* scoreboard barriers that it waits for, a bit each */
    bool known;          /* its function has machine code */
};

/* An instruction's record; NULL: its function has no machine code, and the clock goes by PTX. */
static inline const struct machine_code *machine_code_of(const struct module *module, uint32_t pc) {
    return module->machine != NULL && module->machine[pc].known ? &module->machine[pc] : NULL;
}

/* Time from an instruction's issue to the issue of the warp's next one. */
static inline ticks time_until_next(const struct machine_code *machine, const struct chip *chip) {
    return machine->order == 0 ? 0 : later(machine->after, chip->issue_interval);
}

/* True if a mnemonic is `base`, whatever its modifiers. */
static inline bool mnemonic_is(const char *name, const char *base) {
    const size_t length = strlen(base);
    return strncmp(name, base, length) == 0 && (name[length] == '.' || name[length] == '\0');
}

/* True for a branch over at most `most` instructions, before `end`, that predicates can replace (assembler.c).
 */
bool short_skip(const struct module *module, uint32_t pc, uint32_t most, uint32_t end);
/* Reads the module's file in the folder, named by the hash of its text, and puts its code into ptxas' order. If
 * there is none, writes the text there.  False with a `message`, which is empty if memory is exhausted. */
bool machine_code_read(struct module *module, const struct chip *chip, const char *folder, char *message,
                       size_t room);
/* Puts a function's instructions into the order of their records.  False: no memory. */
bool machine_code_order(struct module *module, const struct function *function);

#endif
