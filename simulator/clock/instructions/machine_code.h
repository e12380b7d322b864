/* What ptxas made of a module's instructions, where the clock has been told (scripts/common/machine_code). */
#ifndef SIM_CLOCK_MACHINE_CODE_H
#define SIM_CLOCK_MACHINE_CODE_H

#include "clock/timing.h"

#define HUNDREDTHS 100 /* in the file */

/* Of one instruction; all 0 where it has no machine code of its own. */
struct machine_code {
    uint64_t order;      /* its place in the code that ptxas made */
    ticks slots;         /* of issue: its own, and those of what stands before it and belongs to no other */
    ticks before, after; /* from the issue of the one before; until the next one's, of a block's last */
    ticks pipe[PIPES];   /* how long it takes each */
    uint64_t parameters; /* lines of the launch's that it reads, a bit each */
    ticks beside;  /* how long it keeps what computes from issuing, while an MMA with A in registers runs */
    uint8_t opens; /* 1 + the barrier that opens when its operands have been read; 0: none */
    uint8_t waits; /* for barriers, a bit each */
    bool known;    /* of a function that the clock has been told of */
};

/* The record of an instruction; NULL: the clock goes by PTX. */
static inline const struct machine_code *machine_code_of(const struct module *module, uint32_t pc) {
    return module->machine != NULL && module->machine[pc].known ? &module->machine[pc] : NULL;
}

/* From its issue to that of the warp's next. */
static inline ticks time_until_next(const struct machine_code *machine, const struct chip *chip) {
    return machine->order == 0 ? 0 : later(machine->after, chip->issue_interval);
}

/* Reads the module's file in the folder, by the hash of its text, and puts its code into ptxas' order; without
 * such a file leaves the text there.  False: `message` says why, and is empty where memory is exhausted. */
bool machine_code_read(struct module *module, const struct chip *chip, const char *folder, char *message,
                       size_t room);
/* Puts a function's instructions into the order of their records.  False: no memory. */
bool machine_code_order(struct module *module, const struct function *function);

#endif
