#ifndef SIM_MACHINE_FINDINGS_H
#define SIM_MACHINE_FINDINGS_H

#include "machine.h"

struct finding_entry {
    struct sim_finding finding;
    const struct insn *insn, *other;
};

/* "FILE:LINE", for an inlined function also the line that called it; "" without an instruction.  To be freed by
 * the caller; NULL: no memory. */
char *source_of(const struct module *module, const struct insn *insn);
/* The statement of the instruction, its white space reduced to single spaces.  If its line holds several, the
 * one with its mnemonic.  Freed as for source_of. */
char *text_of(const struct module *module, const struct insn *insn);
/* The variable that holds a byte of the allocation, or of shared memory for NULL, as in struct sim_finding. */
char *variable_of(const struct launch *launch, const struct cta *cta, const struct allocation *allocation,
                  int64_t offset);
/* True if a rule of sim_suppress hides this finding; the rule counts it (machine/suppress.c). */
bool suppressed(struct sim *sim, enum sim_verdict verdict, const char *kind, const char *kernel,
                uint32_t ptx_line, const char *source);
void suppressions_free(struct sim *sim);

#endif
