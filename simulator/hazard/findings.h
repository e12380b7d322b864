#ifndef SIM_FINDINGS_H
#define SIM_FINDINGS_H

#include "../vm/vm.h"

struct finding_entry {
    struct sim_finding finding;
    const struct insn *insn, *other;
};

#endif
