#ifndef SIM_MACHINE_FINDINGS_H
#define SIM_MACHINE_FINDINGS_H

#include "machine.h"

struct finding_entry {
    struct sim_finding finding;
    const struct insn *insn, *other;
};

#endif
