/* Control flow (bra, brx, ret, exit, trap), nanosleep, griddepcontrol, and fences. */
#include "async/map_change.h"
#include "hazard/global/order.h"
#include "hazard/hazard.h"
#include "isa/opcodes.h"
#include "machine/machine.h"
#include "warp.h"

static enum next exec_bra(struct run *run, const struct insn *insn, uint32_t mask) {
    struct split *split = run->split;
    if (mask == split->mask) {
        split->pc = insn->control.target;
        return JUMP;
    }
    split->mask &= ~mask;
    split->pc++;
    (void)add_split(run, mask, insn->control.target);
    return GONE;
}

void decode_bra(struct decoder *d) {
    (void)mod(d, "uni");
    need_operands(d, 1, 1);
    if (d->op[0].kind != PO_NAME) {
        decode_fail(d, "expected a label");
    }
    branch_to(d->parser, d->op[0].name, NULL);
    d->insn->fn = exec_bra;
}

/* op: index */
static enum next exec_brx(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct branch_targets *targets = insn->control.targets;
    struct split *split = run->split;
    uint32_t stay = split->mask & ~mask, left = mask;
    uint32_t next_pc = split->pc + 1;
    bool used = false;
    while (left != 0) {
        uint32_t index = lane_u32(run, insn->op[0], __builtin_ctz(left));
        uint32_t same = lanes_with(run, insn->op[0], left, index);
        if (index >= targets->count) {
            return sim_report(run, SIM_ERROR, "branch-index", __builtin_ctz(left),
                              "brx.idx with index %u of %u targets", index, targets->count);
        }
        if (!used) {
            split->mask = same;
            split->pc = targets->pc[index];
            used = true;
        } else {
            (void)add_split(run, same, targets->pc[index]);
        }
        left &= ~same;
    }
    if (stay != 0) {
        (void)add_split(run, stay, next_pc);
    }
    return GONE;
}

void decode_brx(struct decoder *d) {
    if (!mod(d, "idx")) {
        decode_fail(d, "expected brx.idx");
    }
    (void)mod(d, "uni");
    need_operands(d, 2, 2);
    if (d->op[1].kind != PO_NAME || d->op[1].symbol == NULL || d->op[1].symbol->kind != SYM_TARGETS) {
        decode_fail(d, "expected a list of targets");
    }
    emit(d, src(d, &d->op[0], T_U32));
    d->insn->control.targets = d->op[1].symbol->targets;
    d->insn->fn = exec_brx;
}

/* Lanes of the running split end though others of the warp wait for them, and they did not return at once: they
 * have passed by the instruction.  Those that wait go on, as on chips. */
static void report_passed_by(struct run *run, uint32_t mask) {
    const struct warp *warp = run->warp;
    for (uint32_t i = 0; i < warp->nsplits && run->split->worked; i++) {
        const struct split *other = warp->splits[i];
        const bool member = other->wait.a != 0;
        const uint32_t missed = member ? other->wait.a & mask : mask;
        if ((other->wait.kind != WAIT_CONVERGE && other->wait.kind != WAIT_WARP_SYNC) || missed == 0 ||
            other == run->split) {
            continue;
        }
        sim_note(run->launch, SIM_REVIEW, member ? "member-mask" : "divergent-aligned", run->cta,
                 (int)warp->index, __builtin_ctz(missed), &run->launch->module->code[other->pc], NULL,
                 member ? "the member mask names a lane that passes by this instruction and ends"
                        : "a lane of the warp passes by this .aligned instruction and ends");
    }
}

/* Ends lanes; barriers no longer wait for them. */
static void end_lanes(struct run *run, uint32_t mask) {
    struct warp *warp = run->warp;
    warp->live &= ~mask;
    run->split->mask &= ~mask;
    run->split->pc++;
    if (run->split->mask == 0) {
        for (uint32_t i = 0; i < warp->nsplits; i++) {
            if (warp->splits[i] == run->split) {
                drop_split(warp, i);
                break;
            }
        }
    }
    run->cta->live_threads -= (uint32_t)__builtin_popcount(mask);
    run->cluster->events++;
    barriers_lost(run->cta, warp);
    /* barrier.cluster.wait waits until every thread has arrived or exited (PTX ISA), so it happens after the
     * exit of a warp that did not arrive. The exit releases none of that warp's memory accesses. */
    if (run->cluster->checks && warp->live == 0 && (warp->cluster_open & mask) == 0) {
        causal_join(run->cluster, run->cluster->cluster_gathered, warp->clock);
    }
    /* An exited thread that had arrived must not be counted in place of one that has not. */
    run->cluster->cluster_arrived -= (uint32_t)__builtin_popcount(warp->cluster_open & mask);
    warp->cluster_open &= ~mask;
    uint32_t live = 0;
    for (uint32_t i = 0; i < run->cluster->nctas; i++) {
        live += run->cluster->ctas[i].live_threads;
    }
    if (run->cluster->cluster_arrived > 0 && run->cluster->cluster_arrived >= live) {
        clusters_complete(run->cluster);
    }
    if (warp->live == 0) {
        groups_at_end(run);
        remote_warp_ends(run);
    }
    if (run->cta->live_threads == 0) {
        order_cta_ends(run);
        remote_cta_ends(run);
    }
}

static enum next exec_ret(struct run *run, const struct insn *insn, uint32_t mask) {
    struct split *split = run->split;
    if (split->depth == 0 || insn->control.exits) {
        if (run->cluster->checks && run->warp->nsplits > 1) {
            report_passed_by(run, mask);
        }
        end_lanes(run, mask);
        return GONE;
    }
    return call_return(run, mask);
}

void decode_ret(struct decoder *d) {
    (void)mod(d, "uni");
    need_operands(d, 0, 0);
    d->insn->control.exits = d->mnemonic.text[0] == 'e';
    d->insn->fn = exec_ret;
}

/* ---- the rest ---- */

static enum next exec_trap(struct run *run, const struct insn *insn, uint32_t mask) {
    (void)insn;
    return sim_report(run, SIM_ERROR, "trap", __builtin_ctz(mask), "the kernel executed trap");
}

void decode_trap(struct decoder *d) {
    need_operands(d, 0, 0);
    d->insn->fn = exec_trap;
}

static enum next exec_nanosleep(struct run *run, const struct insn *insn, uint32_t mask) {
    (void)insn;
    (void)mask;
    (void)run;
    return YIELD; /* treated as a poll */
}

void decode_brkpt(struct decoder *d) {
    d->insn->fn = exec_nothing;
}

void decode_nanosleep(struct decoder *d) {
    (void)mod(d, "u32");
    need_operands(d, 1, 1);
    emit(d, src(d, &d->op[0], T_U32));
    d->insn->fn = exec_nanosleep;
}

/* Launches run one after another, so nothing has to wait; only the order that the checks know changes. */
static enum next exec_dependency_wait(struct run *run, const struct insn *insn, uint32_t mask) {
    (void)insn;
    order_thread_waits(run, mask);
    return NEXT;
}

static enum next exec_launch_dependents(struct run *run, const struct insn *insn, uint32_t mask) {
    (void)insn;
    (void)mask;
    order_thread_lets_start(run);
    return NEXT;
}

void decode_griddepcontrol(struct decoder *d) {
    need_operands(d, 0, 0);
    if (mod(d, "wait")) {
        d->insn->fn = exec_dependency_wait;
    } else if (mod(d, "launch_dependents")) {
        d->insn->fn = exec_launch_dependents;
    } else {
        decode_fail(d, "expected .wait or .launch_dependents");
    }
}

/* ---- fences ---- */

static enum next exec_fence(struct run *run, const struct insn *insn, uint32_t mask) {
    vclock_fence(run, insn->fence.acquires, insn->fence.releases, insn->fence.narrow);
    if (insn->fence.sc) {
        vclock_fence_sc(run);
    }
    if (insn->fence.async_proxy) {
        fence_proxy_async(run);
    }
    if (insn->fence.inits) {
        vclock_fence_inits(run);
    }
    if (insn->fence.acquires_map) { /* an acquire names the tensor map */
        FOR_LANES(rest, mask) {
            map_fenced(run, lane_u64(run, insn->op[0], LANE(rest)) + (uint64_t)insn->offset);
        }
    }
    return NEXT;
}

void decode_fence(struct decoder *d) {
    bool proxy = mod(d, "proxy"), init = mod(d, "mbarrier_init");
    static const char *const words[] = {"sc",
                                        "acq_rel",
                                        "acquire",
                                        "release",
                                        "cta",
                                        "cluster",
                                        "gpu",
                                        "gl",
                                        "sys",
                                        "async",
                                        "async::generic",
                                        "alias",
                                        "tensormap::generic",
                                        "global",
                                        "shared::cta",
                                        "shared::cluster",
                                        "sync_restrict::shared::cta",
                                        "sync_restrict::shared::cluster"};
    bool async = false, tensormap = false, plain = !proxy && !init;
    bool only_acquires = false, only_releases = false, sc = d->mnemonic.text[0] == 'm'; /* membar is fence.sc */
    bool wide = false; /* the scope includes threads of other clusters */
    bool narrow = false;
    for (int word = mod_of(d, COUNTED(words)); word >= 0; word = mod_of(d, COUNTED(words))) {
        sc |= word == 0;
        wide |= word >= 6 && word <= 8;
        narrow |= word == 4;
        only_acquires |= word == 2;
        only_releases |= word == 3;
        async |= word == 9 || word == 10;
        tensormap |= word == 12;
    }
    d->insn->fence.acquires = plain && !only_releases;
    d->insn->fence.releases = plain && !only_acquires;
    d->insn->fence.sc = plain && sc && wide;
    d->insn->fence.narrow = narrow;
    d->insn->fence.async_proxy = proxy && async;
    d->insn->fence.inits = init;
    d->insn->fence.acquires_map = tensormap && d->nop == 2;
    if (d->insn->fence.acquires_map) {
        d->insn->space = SP_GENERIC;
        emit_address(d, &d->op[0]);
    } else {
        need_operands(d, 0, 0);
    }
    d->insn->fn = exec_fence;
}
