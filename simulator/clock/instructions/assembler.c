/* Models what ptxas does with several instructions together, without machine code (seen in sm_90a code): it
 * folds constants, merges two logic operations into one, turns a flag that inline assembly made a number into a
 * flag again, and moves arithmetic beside the MMAs before it.  One pass over a function, after each instruction
 * has its family. */
#include <stdlib.h>

#include "machine_code.h"

#define LOGIC_INPUTS 3
#define SHORT_SKIP   8  /* ptxas replaces a branch over at most this many instructions by predicates */
#define MOST_MOVED   96 /* instructions moved beside one MMA: what registers can hold */

struct row {
    uint32_t defs, uses, def, use; /* counts; 1 + pc of the last of each, 0 for none */
    bool constant;                 /* defined once, by a constant */
    bool fragment;                 /* A of an MMA */
};

struct assembler {
    struct module *module;
    struct row *rows, *preds;
    uint8_t *leader;                   /* by pc - first: ptxas begins a block there */
    uint8_t *moved, *skipped, *joined; /* joined: the result of a merge */
    uint32_t first, end;
};

static struct row *row_of(const struct assembler *a, struct operand operand) {
    return operand.sink                 ? NULL
           : operand.base == BASE_REGS  ? &a->rows[operand.off / ROW32]
           : operand.base == BASE_PREDS ? &a->preds[operand.off / 4]
                                        : NULL;
}

static bool computes(const struct insn *insn) {
    return insn->timing >= FAMILY_ALU && insn->timing <= FAMILY_SPECIAL_FMA;
}

static bool takes_registers(const struct insn *insn) {
    return insn->timing == FAMILY_TENSOR && mnemonic_is(insn->name, "wgmma.mma_async") &&
           insn->wgmma.a_registers != 0;
}

/* ---- definitions and uses ---- */

static void note_operands(const struct assembler *a) {
    for (uint32_t pc = a->first; pc < a->end; pc++) {
        const struct insn *insn = &a->module->code[pc];
        for (uint32_t i = 0; i < insn->nop; i++) {
            struct row *row = row_of(a, insn->op[i]);
            if (row != NULL && i < insn->ndst) {
                row->defs++;
                row->def = pc + 1;
            } else if (row != NULL) {
                row->uses++;
                row->use = pc + 1;
                row->fragment |= takes_registers(insn) && i < insn->ndst + 4u;
            }
        }
        if (insn->guard != 0) {
            struct row *row = &a->preds[insn->guard_off / 4];
            row->uses++;
            row->use = pc + 1;
        }
    }
}

/* ---- blocks ---- */

bool short_skip(const struct module *module, uint32_t pc, uint32_t most, uint32_t end) {
    const struct insn *insn = &module->code[pc];
    const uint32_t target = insn->control.target;
    bool is_short = insn->guard != 0 && target > pc && target <= pc + 1 + most && target < end;
    for (uint32_t i = pc + 1; is_short && i < target; i++) {
        const struct insn *inside = &module->code[i];
        is_short = inside->timing != FAMILY_BRANCH && !inside->aligned && inside->guard == 0;
    }
    return is_short;
}

static void note_blocks(const struct assembler *a) {
    for (uint32_t pc = a->first; pc < a->end; pc++) {
        const struct insn *insn = &a->module->code[pc];
        if (insn->timing != FAMILY_BRANCH) {
            continue;
        }
        if (mnemonic_is(insn->name, "bra") && short_skip(a->module, pc, SHORT_SKIP, a->end)) {
            memset(a->skipped + (pc - a->first), 1, insn->control.target - pc);
            continue;
        }
        if (pc + 1 < a->end) {
            a->leader[pc + 1 - a->first] = 1;
        }
        if (mnemonic_is(insn->name, "bra") && insn->control.target >= a->first &&
            insn->control.target < a->end) {
            a->leader[insn->control.target - a->first] = 1;
        } else if (mnemonic_is(insn->name, "brx")) {
            for (uint32_t i = 0; i < insn->control.targets->count; i++) {
                a->leader[insn->control.targets->pc[i] - a->first] = 1;
            }
        }
    }
}

static bool same_block(const struct assembler *a, uint32_t from, uint32_t to) {
    for (uint32_t pc = from + 1; pc <= to; pc++) {
        if (a->leader[pc - a->first] || a->skipped[pc - a->first]) {
            return false;
        }
    }
    return true;
}

/* ---- constants, logic, flags ---- */

static void fold_constant(const struct assembler *a, struct insn *insn) {
    if ((!computes(insn) && insn->timing != FAMILY_FREE) || insn->guard != 0 || insn->ndst == 0 ||
        insn->nop <= insn->ndst || (insn->ndst > 1 && !insn->op[1].sink)) {
        return;
    }
    struct row *to = row_of(a, insn->op[0]);
    for (uint32_t i = insn->ndst; i < insn->nop; i++) {
        const struct row *from = row_of(a, insn->op[i]);
        if (from != NULL && !from->constant) {
            return;
        }
    }
    if (to != NULL) {
        to->constant = to->defs == 1;
        insn->timing = FAMILY_FREE;
    }
}

static bool is_logic(const struct insn *insn) {
    return (mnemonic_is(insn->name, "and") || mnemonic_is(insn->name, "or") || mnemonic_is(insn->name, "xor") ||
            mnemonic_is(insn->name, "not")) &&
           insn->timing == FAMILY_ALU && insn->machine == 1 && insn->ndst == 1 && insn->guard == 0 &&
           insn->op[0].base == BASE_REGS;
}

static uint32_t add_inputs(const struct insn *insn, const struct operand *left_out, struct operand *inputs,
                           uint32_t count) {
    for (uint32_t i = insn->ndst; i < insn->nop; i++) {
        bool known = left_out != NULL && insn->op[i].base == left_out->base && insn->op[i].off == left_out->off;
        for (uint32_t j = 0; j < count && !known; j++) {
            known = inputs[j].base == insn->op[i].base && inputs[j].off == insn->op[i].off;
        }
        if (!known && count <= LOGIC_INPUTS) {
            inputs[count++] = insn->op[i];
        }
    }
    return count;
}

/* HW: LOP3 computes any function of three inputs.  Merges a logic operation into its only user. */
static void fold_logic(const struct assembler *a, uint32_t pc) {
    struct insn *second = &a->module->code[pc];
    for (uint32_t i = second->ndst; is_logic(second) && i < second->nop; i++) {
        const struct row *row = row_of(a, second->op[i]);
        if (row == NULL || row->defs != 1 || row->uses != 1 || row->def - 1 < a->first || row->def > pc) {
            continue;
        }
        struct insn *first = &a->module->code[row->def - 1];
        struct operand inputs[LOGIC_INPUTS + 1];
        uint32_t count =
            is_logic(first) && !a->joined[row->def - 1 - a->first] && same_block(a, row->def - 1, pc)
                ? add_inputs(second, &first->op[0], inputs, add_inputs(first, NULL, inputs, 0))
                : LOGIC_INPUTS + 1;
        if (count <= LOGIC_INPUTS) {
            first->timing = FAMILY_FREE;
            a->joined[pc - a->first] = 1;
            return;
        }
    }
}

/* A setp of a selp between two constants gives back the selp's flag. */
static void fold_flag(const struct assembler *a, uint32_t pc) {
    struct insn *made = &a->module->code[pc];
    if (!mnemonic_is(made->name, "setp") || made->nop < 3 || made->op[made->ndst + 1u].base != BASE_CONST) {
        return;
    }
    const struct row *row = row_of(a, made->op[made->ndst]);
    if (row == NULL || row->defs != 1 || row->uses != 1 || row->def > pc) {
        return;
    }
    struct insn *number = &a->module->code[row->def - 1];
    if (mnemonic_is(number->name, "selp") && number->op[1].base == BASE_CONST &&
        number->op[2].base == BASE_CONST) {
        made->timing = number->timing = FAMILY_FREE;
    }
}

/* ---- beside MMAs ---- */

/* True if all operands are computed before the MMA at `mma`, or moved there too. */
static bool can_move(const struct assembler *a, uint32_t pc, uint32_t mma) {
    const struct insn *insn = &a->module->code[pc];
    if ((!computes(insn) && insn->timing != FAMILY_FREE) || insn->guard != 0 || insn->ndst == 0 ||
        a->skipped[pc - a->first]) {
        return false;
    }
    for (uint32_t i = 0; i < insn->nop; i++) {
        const struct row *row = row_of(a, insn->op[i]);
        if (row == NULL) {
            continue;
        }
        /* A of an MMA cannot move, since its registers are in use until the wait; nor can a register with
         * several definitions. */
        bool set_between = row->defs > 0 && row->def - 1 > mma && !a->moved[row->def - 1 - a->first];
        if (row->fragment || row->defs > 1 || (i >= insn->ndst && row->def > mma && set_between)) {
            return false;
        }
    }
    return true;
}

/* HW (ptxas, sm_90a): arithmetic behind a group's wait that neither needs the group nor touches its registers
 * moves right behind the group's first MMA. */
static void move_beside(const struct assembler *a, uint32_t mma) {
    struct insn *beside = &a->module->code[mma];
    uint32_t slots = 0, alu = 0, pc = mma + 1;
    bool committed = false;
    for (; pc < a->end && !a->leader[pc - a->first]; pc++) {
        struct insn *insn = &a->module->code[pc];
        committed |= mnemonic_is(insn->name, "wgmma.commit_group");
        if (committed && (takes_registers(insn) || mnemonic_is(insn->name, "wgmma.fence"))) {
            break;
        }
        if (!committed || !can_move(a, pc, mma) || slots + insn->machine > MOST_MOVED) {
            continue;
        }
        a->moved[pc - a->first] = 1;
        if (insn->timing != FAMILY_FREE) {
            slots += insn->machine;
            alu += insn->timing == FAMILY_ALU ? insn->machine : 0;
            insn->timing = FAMILY_FREE;
        }
    }
    beside->wgmma.moved = (uint8_t)slots;
    beside->wgmma.moved_alu = (uint8_t)alu;
}

static void move_all(const struct assembler *a) {
    bool first = true;
    for (uint32_t pc = a->first; pc < a->end; pc++) {
        const struct insn *insn = &a->module->code[pc];
        if (takes_registers(insn) && first) {
            move_beside(a, pc);
            first = false;
        }
        first |= mnemonic_is(insn->name, "wgmma.commit_group");
    }
}

bool timing_assemble(struct module *module, const struct function *function) {
    uint32_t code = function->end_pc - function->first_pc;
    struct assembler a = {.module = module,
                          .rows = calloc(function->reg_bytes / ROW32 + 2, sizeof *a.rows),
                          .preds = calloc(function->pred_bytes / 4 + 2, sizeof *a.preds),
                          .leader = calloc(4 * (size_t)code + 4, 1),
                          .first = function->first_pc,
                          .end = function->end_pc};
    bool room = a.rows != NULL && a.preds != NULL && a.leader != NULL;
    if (room) {
        a.moved = a.leader + code + 1;
        a.skipped = a.moved + code + 1;
        a.joined = a.skipped + code + 1;
        note_operands(&a);
        note_blocks(&a);
        for (uint32_t pc = a.first; pc < a.end; pc++) {
            fold_constant(&a, &module->code[pc]);
            fold_logic(&a, pc);
            fold_flag(&a, pc);
        }
        move_all(&a);
    }
    free(a.rows);
    free(a.preds);
    free(a.leader);
    return room;
}
