/* Dependence on a loaded value.  Registers of different functions are kept apart; arguments of calls pass
 * through local memory, as one cell. */
#include "dependence.h"

#include <stdlib.h>
#include <string.h>

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

/* Marks all that may depend on the value that `from` loads.  False: no memory. */
static bool follow_load(struct reached *reached, const struct insn *from) {
    const struct module *module = reached->module;
    const struct function *loads = function_at(module, (uint32_t)(from - module->code));
    if (loads == NULL || !make_flags(reached)) {
        return false;
    }
    reach_results(reached, loads, from);
    while (reached->grew) {
        reached->grew = false;
        for (uint32_t i = 0; i < module->nfunctions; i++) {
            const struct function *function = module->functions[i];
            for (uint32_t pc = function->first_pc; pc < function->end_pc; pc++) {
                follow(reached, function, &module->code[pc]);
            }
        }
    }
    return true;
}

static void free_flags(struct reached *reached) {
    for (uint32_t i = 0; reached->registers != NULL && i < reached->module->nfunctions; i++) {
        free(reached->registers[i]);
    }
    free(reached->registers);
}

bool depends_on_load(const struct module *module, const struct insn *from, const struct insn *to) {
    struct reached reached = {.module = module};
    bool found = false;
    if (follow_load(&reached, from)) {
        for (uint32_t i = 0; i < module->nfunctions && !found; i++) {
            found = arrives(&reached, module->functions[i], to);
        }
    }
    free_flags(&reached);
    return found;
}

/* ---- ways through a function ---- */

static bool named(const struct insn *insn, const char *name) {
    const size_t length = strlen(name);
    return strncmp(insn->name, name, length) == 0 && (insn->name[length] == '\0' || insn->name[length] == '.');
}

struct ways {
    const struct reached *reached;
    const struct function *function;
    bool stop;      /* at branches that depend on the value */
    uint8_t *been;  /* by instruction of the function */
    uint32_t *left; /* where ways go on that were not followed yet */
    uint32_t count;
};

static void go_to(struct ways *ways, uint32_t pc) {
    const struct function *function = ways->function;
    if (pc >= function->first_pc && pc < function->end_pc && !ways->been[pc - function->first_pc]) {
        ways->been[pc - function->first_pc] = 1;
        ways->left[ways->count++] = pc;
    }
}

/* Fills `been` with the instructions that may follow `from`. */
static void go_from(struct ways *ways, const struct insn *from) {
    const struct insn *code = ways->reached->module->code;
    memset(ways->been, 0, ways->function->end_pc - ways->function->first_pc);
    go_to(ways, (uint32_t)(from - code) + 1);
    while (ways->count > 0) {
        const uint32_t pc = ways->left[--ways->count];
        const struct insn *insn = &code[pc];
        const bool branches = named(insn, "bra"), ends = named(insn, "ret") || named(insn, "exit");
        const bool chooses = named(insn, "brx");
        if (ways->stop && (branches || chooses || ends) && has_source(ways->reached, ways->function, insn)) {
            continue;
        }
        if (branches) {
            go_to(ways, insn->control.target);
        }
        for (uint32_t i = 0; chooses && i < insn->control.targets->count; i++) {
            go_to(ways, insn->control.targets->pc[i]);
        }
        if (insn->guard != 0 || !(branches || chooses || ends)) {
            go_to(ways, pc + 1);
        }
    }
}

static bool passes_barrier(const struct ways *ways) {
    bool passes = false;
    for (uint32_t pc = ways->function->first_pc; pc < ways->function->end_pc; pc++) {
        const struct insn *insn = &ways->reached->module->code[pc];
        passes |= ways->been[pc - ways->function->first_pc] &&
                  (insn->cls == CL_BARRIER || insn->cls == CL_MBARRIER || is_signal(insn));
    }
    return passes;
}

bool waits_for_load(const struct module *module, const struct insn *from, const struct insn *to) {
    struct reached reached = {.module = module};
    const uint32_t pc = (uint32_t)(to - module->code);
    struct ways ways = {.reached = &reached, .function = function_at(module, (uint32_t)(from - module->code))};
    bool waits = false;
    if (ways.function != NULL && ways.function == function_at(module, pc) && follow_load(&reached, from)) {
        const uint32_t size = ways.function->end_pc - ways.function->first_pc,
                       at = pc - ways.function->first_pc;
        ways.been = calloc(size, sizeof *ways.been);
        ways.left = calloc(size, sizeof *ways.left);
        if (ways.been != NULL && ways.left != NULL) {
            go_from(&ways, from);
            const bool follows = ways.been[at] != 0;
            ways.stop = true;
            go_from(&ways, from);
            waits =
                has_source(&reached, ways.function, to) || (follows ? !ways.been[at] : !passes_barrier(&ways));
        }
    }
    free(ways.been);
    free(ways.left);
    free_flags(&reached);
    return waits;
}
