#ifndef SIM_MACHINE_FINDINGS_H
#define SIM_MACHINE_FINDINGS_H

#include "machine.h"

struct finding_entry {
    struct sim_finding finding;
    const struct insn *insn, *other;
};

/* Whether a rule of sim_suppress hides this finding, which is then counted for it (machine/suppress.c). */
bool suppressed(struct sim *sim, enum sim_verdict verdict, const char *kind, const char *kernel,
                uint32_t ptx_line, const char *source);
void suppressions_free(struct sim *sim);

#endif
