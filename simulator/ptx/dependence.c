/* Dependence on a loaded value.  Registers of different functions are kept apart; arguments of calls pass
 * through local memory, as one cell. */
#include "dependence.h"

#include <stdlib.h>

/* What the value may have reached. */
struct reached {
    const struct module *module;
    uint8_t **registers; /* by function: a flag for each row of registers, then for each predicate */
    bool shared, local;
    bool grew;
};

static const struct function *function_at(const struct module *module, uint32_t pc) {
    for (uint32_t i = 0; i < module->nfunctions; i++) {
        const struct function *function = module->functions[i];
        if (pc >= function->first_pc && pc < function->end_pc) {
            return function;
        }
    }
    return NULL;
}

static uint32_t rows_of(const struct function *function) {
    return function->reg_bytes / ROW32 + 1;
}

/* The flag of a register or predicate; NULL for a constant. */
static uint8_t *flag_of(const struct reached *reached, const struct function *function,
                        struct operand operand) {
    uint8_t *flags = reached->registers[function->index];
    return operand.sink || operand.base == BASE_CONST ? NULL
           : operand.base == BASE_PREDS ? &flags[rows_of(function) + operand.off / sizeof(uint32_t)]
                                        : &flags[operand.off / ROW32];
}

static bool has_source(const struct reached *reached, const struct function *function,
                       const struct insn *insn) {
    const struct operand guard = {.off = insn->guard_off, .base = BASE_PREDS};
    bool found = insn->guard != 0 && *flag_of(reached, function, guard);
    for (uint32_t i = insn->ndst; i < insn->nop && !found; i++) {
        const uint8_t *flag = flag_of(reached, function, insn->op[i]);
        found = flag != NULL && *flag;
    }
    return found;
}

static void reach(struct reached *reached, bool *what) {
    reached->grew |= !*what;
    *what = true;
}

static void reach_results(struct reached *reached, const struct function *function, const struct insn *insn) {
    for (uint32_t i = 0; i < insn->ndst; i++) {
        uint8_t *flag = flag_of(reached, function, insn->op[i]);
        if (flag != NULL) {
            reached->grew |= !*flag;
            *flag = 1;
        }
    }
}

static bool in_shared(const struct insn *insn) {
    return insn->cls == CL_MEM_SHARED || (insn->cls == CL_ATOM && insn->space == SP_SHARED) ||
           (insn->space == SP_GENERIC && (insn->cls == CL_MEM_GLOBAL || insn->cls == CL_ATOM));
}

static void follow(struct reached *reached, const struct function *function, const struct insn *insn) {
    const bool memory = insn->cls == CL_MEM_SHARED || insn->cls == CL_MEM_OTHER || insn->cls == CL_MEM_GLOBAL ||
                        insn->cls == CL_ATOM;
    bool source = has_source(reached, function, insn);
    if (memory && insn->ndst > 0) {
        source |= (in_shared(insn) && reached->shared) || (insn->cls == CL_MEM_OTHER && reached->local);
    }
    if (!source) {
        return;
    }
    reach_results(reached, function, insn);
    if (memory && (insn->ndst == 0 || insn->cls == CL_ATOM)) {
        if (in_shared(insn)) {
            reach(reached, &reached->shared);
        } else if (insn->cls == CL_MEM_OTHER) {
            reach(reached, &reached->local);
        }
    }
}

static bool is_signal(const struct insn *insn) {
    return insn->cls == CL_MEM_GLOBAL && insn->ndst == 0 && insn->memory.strong;
}

static bool arrives(const struct reached *reached, const struct function *function, const struct insn *to) {
    for (uint32_t pc = function->first_pc; pc < function->end_pc; pc++) {
        const struct insn *insn = &reached->module->code[pc];
        if ((to == NULL ? is_signal(insn) : insn == to) && has_source(reached, function, insn)) {
            return true;
        }
    }
    return false;
}

static bool make_flags(struct reached *reached) {
    const struct module *module = reached->module;
    reached->registers = calloc(module->nfunctions, sizeof *reached->registers);
    bool made = reached->registers != NULL;
    for (uint32_t i = 0; made && i < module->nfunctions; i++) {
        const struct function *function = module->functions[i];
        const uint32_t predicates = function->pred_bytes / (uint32_t)sizeof(uint32_t) + 1;
        reached->registers[function->index] = calloc(rows_of(function) + predicates, 1);
        made = reached->registers[function->index] != NULL;
    }
    return made;
}

bool depends_on_load(const struct module *module, const struct insn *from, const struct insn *to) {
    struct reached reached = {.module = module};
    const struct function *loads = function_at(module, (uint32_t)(from - module->code));
    bool found = false;
    if (loads != NULL && make_flags(&reached)) {
        reach_results(&reached, loads, from);
        while (reached.grew) {
            reached.grew = false;
            for (uint32_t i = 0; i < module->nfunctions; i++) {
                const struct function *function = module->functions[i];
                for (uint32_t pc = function->first_pc; pc < function->end_pc; pc++) {
                    follow(&reached, function, &module->code[pc]);
                }
            }
        }
        for (uint32_t i = 0; i < module->nfunctions && !found; i++) {
            found = arrives(&reached, module->functions[i], to);
        }
    }
    for (uint32_t i = 0; reached.registers != NULL && i < module->nfunctions; i++) {
        free(reached.registers[i]);
    }
    free(reached.registers);
    return found;
}
