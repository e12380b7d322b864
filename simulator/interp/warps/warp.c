/* A warp's splits (lanes that share a pc): merging, choice of the next one, and the interpreter loop. */
#include "async/async.h"
#include "clock/timing.h"
#include "hazard/hazard.h"
#include "interp/interp.h"

#define POLL_LOOP  64    /* most instructions between two polls of a polling loop */
#define FAIR_STEPS 20000 /* instructions after which a split lets its siblings run */

static bool wait_ready(struct warp *warp, const struct split *split) {
    const struct wait *wait = &split->wait;
    uint32_t here = split->mask;
    switch (wait->kind) {
    case WAIT_BAR:
        return ((const struct named_barrier *)wait->object)->generation != wait->b;
    case WAIT_CLUSTER:
        return warp->cta->cluster->cluster_generation != wait->b;
    case WAIT_CONVERGE: {
        uint32_t wanted = wait->a == 0 ? warp->live : wait->a & warp->live;
        return (here & wanted) == wanted;
    }
    case WAIT_WARP_SYNC:
        for (uint32_t i = 0; i < warp->nsplits; i++) {
            const struct split *other = warp->splits[i];
            here |= other->wait.kind == WAIT_WARP_SYNC && other->wait.a == wait->a ? other->mask : 0;
        }
        return (here & wait->a & warp->live) == (wait->a & warp->live);
    case WAIT_NONE:
        return true;
    default:
        return wait->ready(warp, split);
    }
}

static bool same_place(const struct split *a, const struct split *b) {
    if (a->pc != b->pc || a->depth != b->depth || a->function != b->function) {
        return false;
    }
    for (uint32_t i = 0; i < a->depth; i++) {
        if (a->stack[i].return_pc != b->stack[i].return_pc) {
            return false;
        }
    }
    return true;
}

/* Merges splits at the same pc and call stack, unless one of them waits for something or resumes a wait. */
static void merge_splits(struct warp *warp) {
    for (uint32_t i = 0; i < warp->nsplits; i++) {
        struct split *a = warp->splits[i];
        for (uint32_t j = i + 1; j < warp->nsplits;) {
            struct split *b = warp->splits[j];
            bool apart = a->wait.kind == WAIT_CONVERGE && b->wait.kind == WAIT_CONVERGE &&
                         a->wait.a != b->wait.a; /* they wait for different sets of lanes */
            bool mergeable = !apart && (a->wait.kind == WAIT_NONE || a->wait.kind == WAIT_CONVERGE) &&
                             (b->wait.kind == WAIT_NONE || b->wait.kind == WAIT_CONVERGE) && !a->resumed &&
                             !b->resumed;
            if (mergeable && same_place(a, b)) {
                a->mask |= b->mask;
                a->wait.kind = WAIT_NONE;
                a->steps = 0;
                drop_split(warp, j);
            } else {
                j++;
            }
        }
    }
}

static bool runnable(struct warp *warp, struct split *split) {
    if (split->wait.kind == WAIT_NONE) {
        return true;
    }
    if (!wait_ready(warp, split)) {
        return false;
    }
    split->waited = split->wait.kind;
    split->resumed = split->wait.kind != WAIT_CONVERGE && split->wait.kind != WAIT_WARP_SYNC;
    split->wait.kind = WAIT_NONE;
    return true;
}

/* Chooses the deepest call, then the lowest pc, so that diverged lanes meet again. */
struct split *warp_next(struct warp *warp) {
    if (warp->nsplits == 1) {
        struct split *only = warp->splits[0];
        return runnable(warp, only) ? only : NULL;
    }
    struct split *best = NULL;
    merge_splits(warp);
    for (uint32_t i = 0; i < warp->nsplits; i++) {
        struct split *split = warp->splits[i];
        if (!runnable(warp, split)) {
            continue;
        }
        bool tired = split->steps > FAIR_STEPS, best_tired = best != NULL && best->steps > FAIR_STEPS;
        if (best == NULL || (tired != best_tired           ? best_tired
                             : split->depth != best->depth ? split->depth > best->depth
                                                           : split->pc < best->pc)) {
            best = split;
        }
    }
    if (best != NULL && best->steps > FAIR_STEPS) { /* all have used up their steps: start again */
        for (uint32_t i = 0; i < warp->nsplits; i++) {
            warp->splits[i]->steps = 0;
        }
    }
    return best;
}

static void set_bases(struct run *run) {
    const struct launch *launch = run->launch;
    uint32_t index = run->split->function->index;
    run->base[BASE_REGS] = run->warp->regs + launch->reg_base[index];
    run->base[BASE_PREDS] = run->warp->preds + launch->pred_base[index];
}

static enum next execute_timed(struct run *run, const struct insn *insn, uint32_t mask) {
    time_issue(run, insn);
    enum next next = insn->fn(run, insn, mask);
    time_executed(run, insn, next);
    return next;
}

/* For wgmma's rule that a fence follows the last write of a register.  Constants between a fence and its first
 * wgmma, and copies of them, are apart: nvcc puts the zeros of accumulators there. */
static void note_written(const struct run *run, const struct insn *insn) {
    const struct warp *warp = run->warp;
    const uint32_t now = warp->fence_epoch << WRITE_BITS;
    uint32_t *written = warp->reg_written + run->launch->reg_base[run->split->function->index] / ROW32;
    enum register_write write = insn->cls == CL_MOVE ? BY_COPY : BY_OTHERS;
    if (write == BY_COPY && insn->ndst == 1 && insn->nop == 2 && warp->fence_epoch > 1 && !warp->fence_used) {
        const struct operand from = insn->op[1];
        const bool constant = from.base == BASE_CONST ||
                              (from.base == BASE_REGS && written[from.off / ROW32] == (now | BY_CONSTANT));
        write = constant ? BY_CONSTANT : BY_COPY;
    }
    for (uint32_t i = 0; i < insn->ndst; i++) {
        if (insn->op[i].base == BASE_REGS) {
            written[insn->op[i].off / ROW32] = now | write;
        }
    }
}

static enum next execute(struct run *run, struct split *split) {
    const struct insn *insn = &run->launch->module->code[split->pc];
    uint32_t mask = split->mask;
    run->insn = insn;
    if (insn->guard != 0) {
        mask = guarded_lanes(run->base[BASE_PREDS], insn, mask);
        if (mask == 0) {
            if (run->launch->timing != NULL) {
                time_skipped(run, insn);
            }
            return NEXT;
        }
    }
    if (insn->aligned && mask != run->warp->live && !split->resumed) {
        if (mask != split->mask) {
            return sim_report(run, SIM_ERROR, "divergent-aligned", __builtin_ctz(split->mask & ~mask),
                              "%s is .aligned, but its predicate leaves out lanes %#x of the warp", insn->name,
                              split->mask & ~mask);
        }
        return wait_for(run, (struct wait){.kind = WAIT_CONVERGE, .what = "the warp's other lanes (.aligned)"});
    }
    if (run->warp->npending != 0 && !insn->reg_async && !run->launch->reordered) {
        enum next next = pending_registers(run, insn);
        if (next != NEXT) {
            return next;
        }
    }
    if (run->launch->uses_wgmma && !insn->reg_async) {
        note_written(run, insn);
    }
    run->mask = mask;
    run->worker->counters.instructions++;
    run->worker->counters.by_warp[run->warp->index][insn->cls]++;
    return run->launch->timing == NULL ? insn->fn(run, insn, mask) : execute_timed(run, insn, mask);
}

/* A warp whose turn ends in a loop that polls, before it polls again, makes no progress either. */
static bool in_fruitless_loop(const struct warp *warp, uint64_t now) {
    return warp->fruitless && warp->polled == warp->cta->cluster->events && now - warp->polled_at <= POLL_LOOP;
}

bool run_warp(struct warp *warp, struct worker *worker, uint32_t quantum) {
    struct cluster *cluster = warp->cta->cluster;
    struct run run = {
        .warp = warp, .cta = warp->cta, .cluster = cluster, .launch = cluster->launch, .worker = worker};
    run.base[BASE_CONST] = run.launch->module->constants;
    bool progress = false;
    uint32_t done = 0;
    for (; done < quantum && warp->nsplits > 0;) {
        struct split *split = warp_next(warp);
        if (split == NULL) {
            break;
        }
        run.split = split;
        set_bases(&run);
        uint32_t alone = warp->nsplits == 1;
        enum next next;
        do {
            next = execute(&run, split);
            done++;
            split->steps++;
            split->worked |= run.insn->cls != CL_CONTROL;
            if (next == NEXT) {
                split->resumed = false;
                split->pc++;
            } else if (next == JUMP) {
                split->resumed = false;
                next = NEXT;
            }
        } while (next == NEXT && alone && warp->nsplits == 1 && done < quantum);
        if (next == YIELD) {
            split->resumed = false;
            split->pc++;
            split->steps += FAIR_STEPS / 64; /* a sibling may write what it polls */
            /* Polling again in a short loop, with no event since the last poll, is not progress. */
            uint64_t now = warp->executed + done;
            warp->fruitless = warp->polled == cluster->events && now - warp->polled_at <= POLL_LOOP;
            warp->polled = cluster->events;
            warp->polled_at = now;
            progress = !warp->fruitless;
            break;
        }
        progress = !in_fruitless_loop(warp, warp->executed + done);
        if (next == FAIL) {
            cluster->failed = true;
            return true;
        } else if (next == BLOCK) {
            split->resumed = false;
            progress = done > 1;
        }
    }
    warp->executed += done;
    uint64_t limit = run.launch->sim->options.max_instructions;
    if (warp->executed > limit && !cluster->failed && warp->nsplits > 0) {
        run.split = warp->splits[0];
        run.insn = &run.launch->module->code[run.split->pc];
        (void)sim_report(&run, SIM_ERROR, "runaway", -1, "the warp has executed %llu instructions",
                         (unsigned long long)warp->executed);
        cluster->failed = true;
    }
    return progress;
}
