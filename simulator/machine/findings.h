#ifndef SIM_MACHINE_FINDINGS_H
#define SIM_MACHINE_FINDINGS_H

#include "machine.h"

struct finding_entry {
    struct sim_finding finding;
    const struct insn *insn, *other;
};

/* file:line; for an inlined wrapper also the line that called it.  "" without an instruction; the caller's to
 * free; NULL: no memory. */
char *source_of(const struct module *module, const struct insn *insn);
/* The instruction's statement, its white space as single spaces; of a line with several, the one with its name.
 * As source_of. */
char *text_of(const struct module *module, const struct insn *insn);
/* Whether a rule of sim_suppress hides this finding, which is then counted for it (machine/suppress.c). */
bool suppressed(struct sim *sim, enum sim_verdict verdict, const char *kind, const char *kernel,
                uint32_t ptx_line, const char *source);
void suppressions_free(struct sim *sim);

#endif
