/* Puts a function's instructions into the order of ptxas' machine code.
 *
 * A list schedule within each block: of the instructions whose operands are computed and whose results
 * overwrite nothing that is still needed, the first in machine code comes next.  Instructions without machine
 * code come as soon as possible.  Short branches that ptxas replaced by predicates become predicates. */
#include <stdlib.h>

#include "machine_code.h"

#define SHORT_SKIP 24 /* ptxas replaces a branch over at most this many instructions by predicates */

struct edge {
    uint32_t to, next; /* next: 1 + index of the next edge from the same instruction; 0: none */
};

/* A row of registers within a block: 1 + places in the block, 0 for none. */
struct last {
    uint32_t def, use; /* use: head of the list in `uses` of uses since the definition */
    uint32_t block;    /* the block that both belong to */
};

struct use {
    uint32_t by, next;
};

struct order {
    struct module *module;
    const struct function *function;
    struct last *rows, *preds;
    bool *tensor; /* rows that MMAs read or write */
    uint32_t *edges_of, *needs, *effects;
    bool *leader;
    struct edge *edges;
    struct use *uses;
    uint32_t nedges, edges_room, nuses, uses_room, block;
    struct insn *insns;
    struct machine_code *records;
    bool room;
};

static bool is_absent(const struct order *o, uint32_t pc) {
    return o->module->machine[pc].order == 0;
}

/* ---- branches that are predicates in machine code ---- */

static enum next do_nothing(struct run *run, const struct insn *insn, uint32_t mask) {
    (void)run, (void)insn, (void)mask;
    return NEXT;
}

static void use_predicates(const struct order *o) {
    for (uint32_t pc = o->function->first_pc; pc < o->function->end_pc; pc++) {
        struct insn *insn = &o->module->code[pc];
        if (!mnemonic_is(insn->name, "bra") || !is_absent(o, pc) ||
            !short_skip(o->module, pc, SHORT_SKIP, o->function->end_pc)) {
            continue;
        }
        for (uint32_t i = pc + 1; i < insn->control.target; i++) {
            o->module->code[i].guard = 3 - insn->guard; /* 1 @p, 2 @!p */
            o->module->code[i].guard_off = insn->guard_off;
        }
        insn->fn = do_nothing;
        insn->guard = 0;
        insn->timing = FAMILY_FREE;
    }
}

/* ---- families ---- */

static bool computes(const struct insn *insn) {
    return insn->timing >= FAMILY_ALU && insn->timing <= FAMILY_LONG;
}

static void set_families(const struct order *o) {
    for (uint32_t pc = o->function->first_pc; pc < o->function->end_pc; pc++) {
        struct insn *insn = &o->module->code[pc];
        if (is_absent(o, pc) && computes(insn)) {
            insn->timing = FAMILY_FREE;
        } else if (!is_absent(o, pc) && insn->timing == FAMILY_FREE) {
            insn->timing = FAMILY_ALU;
        }
    }
}

/* ---- blocks ---- */

static void note_leaders(const struct order *o) {
    uint32_t first = o->function->first_pc, end = o->function->end_pc;
    o->leader[0] = o->leader[end - first] = true;
    for (uint32_t pc = first; pc < end; pc++) {
        const struct insn *insn = &o->module->code[pc];
        if (insn->timing != FAMILY_BRANCH && insn->cls != CL_CONTROL) {
            continue;
        }
        if (insn->fn == do_nothing) {
            continue;
        }
        o->leader[pc + 1 - first] = true;
        if (mnemonic_is(insn->name, "brx")) {
            for (uint32_t i = 0; i < insn->control.targets->count; i++) {
                o->leader[insn->control.targets->pc[i] - first] = true;
            }
        } else if (mnemonic_is(insn->name, "bra")) {
            o->leader[insn->control.target - first] = true;
        }
    }
}

static void note_tensor_rows(const struct order *o) {
    for (uint32_t pc = o->function->first_pc; pc < o->function->end_pc; pc++) {
        const struct insn *insn = &o->module->code[pc];
        for (uint32_t i = 0; mnemonic_is(insn->name, "wgmma.mma_async") && i < insn->nop; i++) {
            if (insn->op[i].base == BASE_REGS && !insn->op[i].sink) {
                o->tensor[insn->op[i].off / ROW32] = true;
            }
        }
    }
}

/* ---- dependencies ---- */

static void add_edge(struct order *o, uint32_t from, uint32_t to) {
    if (!LIST_GROW(o->edges, o->nedges, o->edges_room)) {
        o->room = false;
        return;
    }
    o->edges[o->nedges++] = (struct edge){to, o->edges_of[from]};
    o->edges_of[from] = o->nedges;
    o->needs[to]++;
}

static struct last *last_of(const struct order *o, struct operand operand) {
    struct last *last = operand.sink                 ? NULL
                        : operand.base == BASE_REGS  ? &o->rows[operand.off / ROW32]
                        : operand.base == BASE_PREDS ? &o->preds[operand.off / 4]
                                                     : NULL;
    if (last != NULL && last->block != o->block) {
        *last = (struct last){.block = o->block};
    }
    return last;
}

static void note_use(struct order *o, struct last *last, uint32_t at) {
    if (last == NULL) {
        return;
    }
    if (last->def != 0) {
        add_edge(o, last->def - 1, at);
    }
    if (!LIST_GROW(o->uses, o->nuses, o->uses_room)) {
        o->room = false;
        return;
    }
    o->uses[o->nuses++] = (struct use){at, last->use};
    last->use = o->nuses;
}

static void note_def(struct order *o, struct last *last, uint32_t at) {
    if (last == NULL) {
        return;
    }
    if (last->def != 0 && last->def - 1 != at) {
        add_edge(o, last->def - 1, at);
    }
    for (uint32_t use = last->use; use != 0; use = o->uses[use - 1].next) {
        if (o->uses[use - 1].by != at) {
            add_edge(o, o->uses[use - 1].by, at);
        }
    }
    last->def = at + 1;
    last->use = 0;
}

static void note_operands(struct order *o, const struct insn *insn, uint32_t at) {
    if (insn->guard != 0) {
        struct operand guard = {.base = BASE_PREDS, .off = insn->guard_off};
        note_use(o, last_of(o, guard), at);
    }
    for (uint32_t i = insn->ndst; i < insn->nop; i++) {
        note_use(o, last_of(o, insn->op[i]), at);
    }
    for (uint32_t i = 0; i < insn->ndst; i++) {
        struct last *last = last_of(o, insn->op[i]);
        if (insn->guard != 0) { /* lanes that are left out keep the old value */
            note_use(o, last, at);
        }
        note_def(o, last, at);
    }
}

static bool touches_tensor(const struct order *o, const struct insn *insn) {
    for (uint32_t i = 0; i < insn->nop; i++) {
        if (insn->op[i].base == BASE_REGS && !insn->op[i].sink && o->tensor[insn->op[i].off / ROW32]) {
            return true;
        }
    }
    return false;
}

/* Keeps instructions with effects and machine code in the order of the machine code. */
static void chain_effects(struct order *o, uint32_t first, uint32_t count) {
    for (uint32_t i = 1; i < count; i++) {
        uint32_t at = o->effects[i], j = i;
        for (; j > 0 &&
               o->module->machine[first + o->effects[j - 1]].order > o->module->machine[first + at].order;
             j--) {
            o->effects[j] = o->effects[j - 1];
        }
        o->effects[j] = at;
    }
    for (uint32_t i = 1; i < count; i++) {
        add_edge(o, o->effects[i - 1], o->effects[i]);
    }
}

/* Instructions with effects beyond their registers keep the order of machine code; those without machine code
 * keep the order of PTX.  A move of an MMA's registers stays behind the wait for them. */
static void note_effects(struct order *o, uint32_t first, uint32_t end) {
    uint32_t effect = 0, wait = 0; /* places + 1 */
    uint32_t count = 0;
    bool pending = false; /* the last effect has no machine code */
    for (uint32_t at = 0; at < end - first; at++) {
        const struct insn *insn = &o->module->code[first + at];
        bool absent = is_absent(o, first + at);
        if (absent && wait != 0 && touches_tensor(o, insn)) {
            add_edge(o, wait - 1, at);
        }
        if (computes(insn) || insn->timing == FAMILY_FREE) {
            continue;
        }
        if (effect != 0 && (absent || pending)) {
            add_edge(o, effect - 1, at);
        }
        if (!absent) {
            o->effects[count++] = at;
        }
        effect = at + 1;
        pending = absent;
        wait = mnemonic_is(insn->name, "wgmma.wait_group") ? at + 1 : wait;
    }
    chain_effects(o, first, count);
}

/* ---- the order ---- */

static uint32_t next_of(const struct order *o, uint32_t first, uint32_t count) {
    uint32_t best = count;
    for (uint32_t at = 0; at < count; at++) {
        if (o->needs[at] == 0 &&
            (best == count || o->module->machine[first + at].order < o->module->machine[first + best].order)) {
            best = at;
        }
    }
    return best;
}

static void sort_block(struct order *o, uint32_t first, uint32_t end) {
    uint32_t count = end - first;
    o->block++;
    o->nedges = o->nuses = 0;
    memset(o->edges_of, 0, count * sizeof *o->edges_of);
    memset(o->needs, 0, count * sizeof *o->needs);
    for (uint32_t at = 0; at < count; at++) {
        note_operands(o, &o->module->code[first + at], at);
    }
    note_effects(o, first, end);
    const struct insn *code = &o->module->code[first];
    bool ends = code[count - 1].timing == FAMILY_BRANCH || code[count - 1].cls == CL_CONTROL;
    for (uint32_t at = 0; ends && at + 1 < count; at++) { /* the branch stays last */
        add_edge(o, at, count - 1);
    }
    for (uint32_t i = 0; o->room && i < count; i++) {
        uint32_t at = next_of(o, first, count);
        if (at == count) { /* a cycle: machine code copied a value that PTX keeps in one register; leave the
                              block as it is */
            return;
        }
        o->needs[at] = UINT32_MAX;
        o->insns[i] = code[at];
        o->records[i] = o->module->machine[first + at];
        for (uint32_t edge = o->edges_of[at]; edge != 0; edge = o->edges[edge - 1].next) {
            o->needs[o->edges[edge - 1].to]--;
        }
    }
    if (o->room) {
        memcpy(&o->module->code[first], o->insns, count * sizeof *o->insns);
        memcpy(&o->module->machine[first], o->records, count * sizeof *o->records);
    }
}

bool machine_code_order(struct module *module, const struct function *function) {
    uint32_t code = function->end_pc - function->first_pc, rows = function->reg_bytes / ROW32 + 2;
    struct order o = {.module = module,
                      .function = function,
                      .rows = calloc(rows, sizeof *o.rows),
                      .preds = calloc(function->pred_bytes / 4 + 2, sizeof *o.preds),
                      .tensor = calloc(rows, sizeof *o.tensor),
                      .edges_of = calloc(code + 1, sizeof *o.edges_of),
                      .needs = calloc(code + 1, sizeof *o.needs),
                      .effects = calloc(code + 1, sizeof *o.effects),
                      .leader = calloc(code + 1, sizeof *o.leader),
                      .insns = calloc(code + 1, sizeof *o.insns),
                      .records = calloc(code + 1, sizeof *o.records),
                      .room = true};
    o.room = o.rows != NULL && o.preds != NULL && o.tensor != NULL && o.edges_of != NULL && o.needs != NULL &&
             o.effects != NULL && o.leader != NULL && o.insns != NULL && o.records != NULL;
    if (o.room) {
        use_predicates(&o);
        note_leaders(&o);
        note_tensor_rows(&o);
        set_families(&o);
    }
    for (uint32_t first = 0, at = 1; o.room && at <= code; at++) {
        if (o.leader[at]) {
            sort_block(&o, function->first_pc + first, function->first_pc + at);
            first = at;
        }
    }
    free(o.rows);
    free(o.preds);
    free(o.tensor);
    free(o.edges_of);
    free(o.needs);
    free(o.effects);
    free(o.leader);
    free(o.insns);
    free(o.records);
    free(o.edges);
    free(o.uses);
    return o.room;
}
