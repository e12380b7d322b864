/* When an instruction's operands and results are ready, and the pipe that it uses (operands.h). */
#include "operands.h"

/* ---- operands ---- */

static uint32_t row_base(const struct warp *warp, const struct split *split) {
    return warp->cta->cluster->launch->reg_base[split->function->index] / ROW32;
}

static uint32_t pred_base(const struct warp *warp, const struct split *split) {
    return warp->cta->cluster->launch->pred_base[split->function->index] / 4;
}

static struct value *value_of(const struct warp *warp, const struct split *split, struct operand operand) {
    return operand.sink                 ? NULL
           : operand.base == BASE_REGS  ? &warp->time->values[row_base(warp, split) + operand.off / ROW32]
           : operand.base == BASE_PREDS ? &warp->time->pred_values[pred_base(warp, split) + operand.off / 4]
                                        : NULL;
}

bool time_left_out(const struct warp *warp, const struct split *split, const struct insn *insn) {
    const uint8_t *preds = warp->preds + warp->cta->cluster->launch->pred_base[split->function->index];
    return guarded_lanes(preds, insn, split->mask) == 0;
}

ticks time_operands_ready(const struct warp *warp, const struct split *split, const struct insn *insn,
                          uint32_t first, enum pipe pipe) {
    struct warp_time *time = warp->time;
    ticks ready = 0, cross = timing_of(warp)->chip.cross_pipe_latency;
    time->latest = NULL;
    if (insn->guard != 0) {
        const struct value *guard = &time->pred_values[pred_base(warp, split) + insn->guard_off / 4];
        ready = guard->ready;
        time->latest = guard->from;
    }
    for (uint32_t i = first; i < insn->nop; i++) {
        const struct value *value = value_of(warp, split, insn->op[i]);
        if (value == NULL || value->ready == 0) {
            continue;
        }
        if (value->ready == NEVER) {
            return NEVER;
        }
        uint8_t from = insn->op[i].base == BASE_REGS && pipe != PIPES ? value->pipe : 0;
        ticks at = value->ready + (from != 0 && from != 1 + (uint8_t)pipe && i >= insn->ndst ? cross : 0);
        time->latest = at > ready ? value->from : time->latest;
        ready = later(ready, at);
    }
    return ready;
}

void time_results_ready(struct warp *warp, const struct split *split, const struct insn *insn, ticks ready,
                        enum pipe pipe) {
    const struct insn *from = insn->timing == FAMILY_FREE ? warp->time->latest : insn;
    for (uint32_t i = 0; i < insn->ndst; i++) {
        struct value *value = value_of(warp, split, insn->op[i]);
        if (value != NULL) {
            *value = (struct value){ready, from, pipe == PIPES ? 0 : (uint8_t)(1 + pipe)};
        }
    }
}

/* ---- pipes ---- */

static struct cost pipe_cost(const struct chip *chip, enum clock_family family) {
    switch (family) {
    case FAMILY_ALU:
    case FAMILY_ADD:
        return (struct cost){PIPE_ALU, chip->alu_latency, chip->alu_interval};
    case FAMILY_FMA:
        return (struct cost){PIPE_FMA, chip->fma_latency, chip->fma_interval};
    case FAMILY_IMAD:
        return (struct cost){PIPE_FMA, chip->imad_latency, chip->imad_interval};
    case FAMILY_IMAD_WIDE:
        return (struct cost){PIPE_FMA, chip->imad_wide_latency, chip->imad_wide_interval};
    case FAMILY_HALF:
        return (struct cost){PIPE_FMA, chip->half_latency, chip->half_interval};
    case FAMILY_SPECIAL:
        return (struct cost){PIPE_SPECIAL, chip->special_latency, chip->special_interval};
    case FAMILY_SPECIAL_FMA:
        return (struct cost){PIPE_SPECIAL, chip->special_latency + 4 * chip->fma_latency,
                             chip->special_interval};
    case FAMILY_LONG:
        return (struct cost){PIPE_ALU, chip->alu_latency, chip->alu_interval};
    default:
        return (struct cost){PIPES, 0, 0};
    }
}

struct cost time_cost(const struct warp *warp, const struct insn *insn) {
    struct cost cost = pipe_cost(&timing_of(warp)->chip, (enum clock_family)insn->timing);
    if (insn->timing == FAMILY_ADD) { /* HW: IADD3 or IMAD.IADD; ptxas and the issue logic balance the two */
        const struct part *part = &sm_of(warp->cta)->part[warp->index % SM_PARTS];
        cost.pipe = part->pipe[PIPE_FMA].free < part->pipe[PIPE_ALU].free ? PIPE_FMA : PIPE_ALU;
    }
    return cost;
}

ticks time_lsu_interval(const struct chip *chip, enum clock_family family) {
    return family == FAMILY_SHUFFLE ? chip->shuffle_interval
           : family == FAMILY_VOTE  ? chip->vote_interval
           : family == FAMILY_REDUX ? chip->redux_interval
                                    : 0;
}

ticks time_lsu_latency(const struct chip *chip, enum clock_family family) {
    return family == FAMILY_SHUFFLE ? chip->shuffle_latency
           : family == FAMILY_VOTE  ? chip->vote_latency
                                    : chip->redux_latency;
}

ticks time_operands(const struct warp *warp, const struct split *split) {
    return time_operands_ready(warp, split, &warp->cta->cluster->launch->module->code[split->pc], 0, PIPES);
}
