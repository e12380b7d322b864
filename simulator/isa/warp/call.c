/* Calls: direct, through a pointer, recursive (PTX ISA, call, .callprototype); malloc and free of kernels.
 *
 * Each function has one block of registers per warp and one frame of local memory per thread. A function that
 * is called while it is active gets a further frame at the end of local memory; before it lie the registers
 * that the calling lanes had in the outer activation, which come back at the return. */
#include "isa/opcodes.h"
#include "machine/heap.h"
#include "machine/machine.h"
#include "warp.h"

#define FRAME_ALIGN 16
#define HEAP_TRAP   0xb5 /* new memory is filled with this, as cudaMalloc's */

static uint8_t *local_of(const struct run *run, int lane) {
    return run->warp->local + (size_t)lane * run->launch->local_bytes;
}

/* Bytes of a function's registers and predicates for one lane. */
static uint32_t saved_bytes(const struct function *function) {
    return (uint32_t)round_up(function->reg_bytes / LANES + function->pred_bytes / 4, FRAME_ALIGN);
}

/* Copies a lane's registers and predicates of a function to its local memory, or back. */
static void move_registers(const struct run *run, const struct function *function, int lane, uint8_t *saved,
                           bool back) {
    const struct launch *launch = run->launch;
    uint8_t *regs = run->warp->regs + launch->reg_base[function->index];
    uint8_t *preds = run->warp->preds + launch->pred_base[function->index];
    const uint8_t *wide = launch->wide_row + launch->reg_base[function->index] / ROW32;
    for (uint32_t row = 0; row < function->reg_bytes / ROW32; row++) {
        const uint32_t bytes = wide[row] ? 8 : 4;
        uint8_t *at = regs + row * ROW32 + (uint32_t)lane * bytes;
        memcpy(back ? at : saved, back ? saved : at, bytes);
        saved += bytes;
        row += wide[row];
    }
    for (uint32_t word = 0; word < function->pred_bytes / 4; word++) {
        uint32_t bits;
        memcpy(&bits, preds + word * 4, sizeof bits);
        if (back) {
            bits = (bits & ~(1u << lane)) | (uint32_t)saved[word] << lane;
            memcpy(preds + word * 4, &bits, sizeof bits);
        } else {
            saved[word] = bits >> lane & 1;
        }
    }
}

/* Sets the addresses of a function's local variables for the frame at `base`. */
static void set_frame(const struct run *run, const struct function *function, uint32_t mask, uint32_t base) {
    uint8_t *regs = run->warp->regs + run->launch->reg_base[function->index];
    for (uint32_t i = 0; i < function->nspecials; i++) {
        const struct special *special = &function->specials[i];
        const size_t bytes = special->width == SPECIAL_64 ? 8 : 4;
        const uint64_t value = base + (uint64_t)special->value;
        FOR_LANES(rest, special->kind == SR_LOCAL_SYMBOL ? mask : 0) {
            memcpy(regs + special->off + (size_t)LANE(rest) * bytes, &value, bytes);
        }
    }
}

static bool is_active(const struct split *split, const struct function *function) {
    bool active = split->function == function;
    for (uint32_t i = 0; i < split->depth && !active; i++) {
        active = split->stack[i].function == function;
    }
    return active;
}

/* The lanes of `mask`, all of the split, enter the function. */
static enum next enter(struct run *run, const struct function *callee, const struct call_info *call,
                       uint32_t mask) {
    struct split *split = run->split;
    const struct launch *launch = run->launch;
    const bool again = launch->recursive && is_active(split, callee);
    uint32_t base = launch->local_base[callee->index], saved = CALL_SAVED_NOTHING, top = split->local_top;
    if (again) {
        saved = top;
        base = saved + saved_bytes(callee);
        top = base + (uint32_t)round_up(callee->local_bytes, FRAME_ALIGN);
    }
    if (split->depth == launch->call_depth || top > launch->local_bytes) {
        return sim_report(run, SIM_INCOMPLETE, "call-depth", -1,
                          "more than %u calls inside each other, or more local memory than there is room for",
                          split->depth);
    }
    FOR_LANES(rest, mask) {
        uint8_t *local = local_of(run, LANE(rest));
        for (uint32_t i = 0; i < call->nin; i++) {
            memcpy(local + base + callee->params[i].offset, local + split->local_base + call->in[i].caller,
                   call->in[i].bytes);
        }
        if (again) {
            move_registers(run, callee, LANE(rest), local + saved, false);
        }
    }
    if (again) {
        set_frame(run, callee, mask, base);
    }
    split->stack[split->depth++] =
        (struct frame){split->pc + 1, split->local_base, saved, split->function, call};
    split->function = callee;
    split->local_base = base;
    split->local_top = top;
    split->pc = callee->first_pc;
    return GONE;
}

enum next call_return(struct run *run, uint32_t mask) {
    struct split *split = run->split;
    const struct frame *frame = &split->stack[split->depth - 1];
    FOR_LANES(rest, mask) {
        uint8_t *local = local_of(run, LANE(rest));
        for (uint32_t i = 0; i < frame->call->nout; i++) {
            memcpy(local + frame->local_base + frame->call->out[i].caller,
                   local + split->local_base + split->function->returns[i].offset, frame->call->out[i].bytes);
        }
        if (frame->saved != CALL_SAVED_NOTHING) {
            move_registers(run, split->function, LANE(rest), local + frame->saved, true);
        }
    }
    if (mask != split->mask) {
        uint32_t rest = split->mask & ~mask;
        split->mask = mask;
        (void)add_split(run, rest, split->pc + 1);
    }
    split->pc = frame->return_pc;
    split->local_top = frame->saved != CALL_SAVED_NOTHING ? frame->saved : split->local_top;
    split->local_base = frame->local_base;
    split->function = frame->function;
    split->depth--;
    return GONE;
}

/* ---- malloc, free ---- */

static enum next exec_malloc(struct run *run, const struct call_info *call, uint32_t mask) {
    FOR_LANES(rest, mask) {
        uint8_t *frame = local_of(run, LANE(rest)) + run->split->local_base;
        uint64_t bytes = 0;
        memcpy(&bytes, frame + call->in[0].caller, sizeof bytes);
        const uint64_t address = heap_take(run->launch->sim->heap, bytes);
        if (address != 0) {
            memset((void *)(uintptr_t)address, HEAP_TRAP, bytes);
        }
        memcpy(frame + call->out[0].caller, &address, sizeof address);
    }
    return NEXT;
}

static enum next exec_free(struct run *run, const struct call_info *call, uint32_t mask) {
    FOR_LANES(rest, mask) {
        uint64_t address = 0;
        memcpy(&address, local_of(run, LANE(rest)) + run->split->local_base + call->in[0].caller,
               sizeof address);
        if (address != 0 && !heap_give(run->launch->sim->heap, address)) {
            return sim_report(run, SIM_ERROR, "bad-address", LANE(rest),
                              "frees %#llx, which malloc has not returned or which is free already",
                              (unsigned long long)address);
        }
    }
    return NEXT;
}

/* ---- call ---- */

static enum next exec_call(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct call_info *call = insn->control.call;
    switch (call->callee->builtin) {
    case BUILTIN_VPRINTF:
        return exec_vprintf(run, insn, mask);
    case BUILTIN_ASSERTFAIL:
        return sim_report(run, SIM_ERROR, "assert", __builtin_ctz(mask), "a device-side assertion failed");
    case BUILTIN_MALLOC:
        return exec_malloc(run, call, mask);
    case BUILTIN_FREE:
        return exec_free(run, call, mask);
    default:
        break;
    }
    if (mask != run->split->mask) {
        const uint32_t rest = run->split->mask & ~mask;
        run->split->mask = mask;
        (void)add_split(run, rest, run->split->pc + 1);
    }
    return enter(run, call->callee, call, mask);
}

static bool has_prototype(const struct function *function, const struct call_info *call) {
    bool same = function->nparams == call->nin && function->nreturns == call->nout;
    for (uint32_t i = 0; same && i < call->nin; i++) {
        same = function->params[i].bytes == call->in[i].bytes;
    }
    for (uint32_t i = 0; same && i < call->nout; i++) {
        same = function->returns[i].bytes == call->out[i].bytes;
    }
    return same;
}

/* op: the function's address. Lanes with another address execute the instruction again. */
static enum next exec_call_pointer(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct module *module = run->launch->module;
    const struct call_info *call = insn->control.call;
    const int first = __builtin_ctz(mask);
    const uint64_t address = lane_u64(run, insn->op[0], first);
    const struct function *callee =
        address != 0 && address <= module->nfunctions ? module->functions[address - 1] : NULL;
    if (callee == NULL || callee->is_entry || run->launch->reg_base[callee->index] == UINT32_MAX) {
        return callee != NULL && callee->unreadable != NULL
                   ? sim_report(run, SIM_INCOMPLETE, "call-pointer", first, "calls %s: %s", callee->name,
                                callee->unreadable)
                   : sim_report(run, SIM_ERROR, "bad-address", first,
                                "calls through %#llx, which is the address of no function",
                                (unsigned long long)address);
    }
    if (!has_prototype(callee, call)) {
        return sim_report(run, SIM_ERROR, "bad-address", first,
                          "calls %s with other parameters or results than it has", callee->name);
    }
    const uint32_t same = lanes_with(run, insn->op[0], mask, address);
    const uint32_t others = mask & ~same, passing = run->split->mask & ~mask;
    run->split->mask = same;
    if (others != 0) {
        (void)add_split(run, others, run->split->pc);
    }
    if (passing != 0) {
        (void)add_split(run, passing, run->split->pc + 1);
    }
    return enter(run, callee, call, same);
}

static struct call_copy *parameter_copies(struct decoder *d, const struct operand_text *list,
                                          const struct parameter *formal, uint32_t formals) {
    if (list->count != formals) {
        decode_fail(d, "%u parameters; the function has %u", list->count, formals);
    }
    struct call_copy *copies = parse_take(d->parser, (formals + 1) * sizeof *copies);
    for (uint32_t i = 0; i < formals; i++) {
        const struct operand_text *actual = &list->sub[i];
        if (actual->kind != PO_NAME || actual->symbol == NULL || actual->symbol->kind != SYM_FRAME ||
            actual->symbol->bytes < formal[i].bytes) {
            decode_fail(d, "a parameter must be a .param variable of the right size");
        }
        copies[i] = (struct call_copy){actual->symbol->off, formal[i].bytes};
    }
    return copies;
}

/* malloc and free of the chip's library; a kernel may declare others. */
static void check_builtin(struct decoder *d, const struct call_info *info) {
    const unsigned builtin = info->callee == NULL ? BUILTIN_NONE : info->callee->builtin;
    if ((builtin == BUILTIN_MALLOC || builtin == BUILTIN_FREE) &&
        (info->nin != 1 || info->in[0].bytes != 8 || info->nout != (builtin == BUILTIN_MALLOC) ||
         (builtin == BUILTIN_MALLOC && info->out[0].bytes != 8))) {
        decode_fail(d, "malloc and free have one parameter of 64 bits");
    }
}

void decode_call(struct decoder *d) {
    static const struct operand_text empty = {.kind = PO_LIST};
    struct parser *parser = d->parser;
    (void)mod(d, "uni");
    int at = 0;
    const struct operand_text *returns = d->nop > at && d->op[at].kind == PO_LIST ? &d->op[at++] : &empty;
    const struct operand_text *callee = d->nop > at ? &d->op[at++] : &empty;
    const struct operand_text *arguments = d->nop > at && d->op[at].kind == PO_LIST ? &d->op[at++] : &empty;
    const bool pointer = callee->kind == PO_REG;
    const struct operand_text *type = pointer && d->nop > at ? &d->op[at++] : callee;
    if (type->kind != PO_NAME || type->symbol == NULL || at != d->nop ||
        type->symbol->kind != (pointer ? SYM_PROTOTYPE : SYM_FUNCTION)) {
        decode_fail(d, "expected a declared function, or a register and a prototype");
    }
    const struct function *function = type->symbol->function;
    struct call_info *info = parse_take(parser, sizeof *info);
    info->callee = pointer ? NULL : function;
    info->in = parameter_copies(d, arguments, function->params, function->nparams);
    info->out = parameter_copies(d, returns, function->returns, function->nreturns);
    info->nin = function->nparams;
    info->nout = function->nreturns;
    check_builtin(d, info);
    if (pointer) {
        parser->function->calls_pointers = 1;
        emit(d, src(d, callee, T_U64));
    } else {
        parser->calls = parse_grow(parser, parser->calls, parser->function->ncalls, &parser->calls_room,
                                   sizeof *parser->calls);
        parser->calls[parser->function->ncalls++] = function;
    }
    d->insn->control.call = info;
    d->insn->fn = pointer ? exec_call_pointer : exec_call;
}
