/* The mbarrier instructions (PTX ISA, Parallel Synchronization: mbarrier); objects: async/mbarrier.c. */
#include "async/async.h"
#include "isa/opcodes.h"

enum {
    M_INIT,
    M_INVAL,
    M_EXPECT_TX,
    M_COMPLETE_TX,
    M_ARRIVE,
    M_ARRIVE_DROP,
    M_TEST_WAIT,
    M_TRY_WAIT,
    M_PENDING
};

/* op: [destination], [value], address. */

static uint64_t address_lane(const struct run *run, const struct insn *insn, int lane) {
    uint64_t address = lane_u64(run, insn->op[insn->nop - 1], lane) + (uint64_t)insn->offset;
    return address & ~WINDOW_MASK; /* accepts generic addresses of shared memory too */
}

static struct operand value_operand(const struct insn *insn) {
    return insn->op[insn->mbarrier.has_destination ? 1 : 0];
}

static enum next exec_simple(struct run *run, const struct insn *insn, uint32_t mask) {
    bool own_only = insn->space != SP_SHARED_CLUSTER;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        uint64_t address = address_lane(run, insn, lane);
        uint32_t value = insn->mbarrier.has_value ? lane_u32(run, value_operand(insn), lane) : 0;
        if (insn->mbarrier.operation == M_INIT || insn->mbarrier.operation == M_INVAL) {
            if ((insn->mbarrier.operation == M_INIT ? mbarrier_init(run, address, value, lane)
                                                    : mbarrier_inval(run, address, lane)) == FAIL) {
                return FAIL;
            }
            continue;
        }
        struct mbarrier *barrier = mbarrier_at(run, address, lane, own_only, false);
        if (barrier == NULL) {
            return FAIL;
        }
        if (insn->mbarrier.operation == M_EXPECT_TX) {
            mbarrier_expect_tx(run, barrier, value);
        } else {
            mbarrier_take_tx(run->cluster, barrier, value);
        }
    }
    return run->cluster->failed ? FAIL : NEXT;
}

static enum next exec_arrive(struct run *run, const struct insn *insn, uint32_t mask) {
    bool own_only = insn->space != SP_SHARED_CLUSTER;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        uint32_t value = insn->mbarrier.has_value ? lane_u32(run, value_operand(insn), lane) : 1;
        struct mbarrier *barrier = mbarrier_at(run, address_lane(run, insn, lane), lane, own_only, false);
        if (barrier == NULL) {
            return FAIL;
        }
        uint64_t state = (uint64_t)barrier->phase << 32 | barrier->pending;
        if (insn->mbarrier.expects_tx) {
            mbarrier_expect_tx(run, barrier, value);
            value = 1;
        }
        if (insn->mbarrier.operation == M_ARRIVE_DROP && barrier->expected > 0) {
            barrier->expected--;
        }
        /* PTX ISA, memory consistency model: a release with scope .cta is only for threads of that CTA */
        bool in_scope = !insn->mbarrier.of_cta || barrier->cta == run->cta;
        mbarrier_arrive(run, barrier, value, !insn->mbarrier.relaxed && in_scope);
        if (insn->mbarrier.has_destination && !insn->op[0].sink) {
            ((uint64_t *)row(run, insn->op[0]))[lane] = state;
        }
    }
    return run->cluster->failed ? FAIL : NEXT;
}

static bool phase_over(const struct mbarrier *barrier, bool by_parity, uint32_t wanted) {
    return by_parity ? (barrier->phase & 1) != (wanted & 1) : barrier->phase > wanted;
}

static bool barrier_ready(struct warp *warp, const struct split *split) {
    (void)warp;
    return phase_over(split->wait.object, split->wait.b, split->wait.a);
}

/* Updates the warp's clock by the result of a test: acquires what a completed phase released. */
static void note_test(struct run *run, const struct insn *insn, struct mbarrier *barrier, bool parity,
                      uint32_t phase, bool over) {
    phase_tested(run, barrier, parity ? barrier->phase + !over : phase + 1, parity);
    if (over && !insn->mbarrier.relaxed) {
        if (insn->mbarrier.of_cta && barrier->previous_remote_arrival != NULL) {
            report_narrow_scope(run, barrier->previous_remote_arrival);
        }
        vclock_observe(run, barrier->released);
        vclock_met_at(run, barrier->released);
    } else if (over) {
        execution_join(run->cluster, run->warp->clock, barrier->released);
        causal_join(run->cluster, run->warp->clock, barrier->released);
        vclock_noticed(run, barrier->released);
    }
}

/* op: predicate, state or parity, address. */
static enum next exec_wait(struct run *run, const struct insn *insn, uint32_t mask) {
    bool parity = insn->mbarrier.by_parity;
    uint32_t done = 0;
    struct mbarrier *waited = NULL;
    const struct mbarrier *tested = NULL; /* barrier and result of the previous lane's test */
    bool tested_over = false;
    uint32_t wanted = 0;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        struct mbarrier *barrier = mbarrier_at(run, address_lane(run, insn, lane), lane, true, false);
        if (barrier == NULL) {
            return FAIL;
        }
        uint64_t value = lane_u64(run, insn->op[1], lane);
        uint32_t phase = parity ? (uint32_t)value : (uint32_t)(value >> 32);
        /* With simulated time, a woken thread saw the phase end, even if later phases ended meanwhile. */
        bool woken = run->launch->timing != NULL && run->split->resumed && run->split->wait.object == barrier;
        bool over = woken || phase_over(barrier, parity, phase);
        if (run->cluster->checks && (barrier != tested || over != tested_over)) {
            note_test(run, insn, barrier, parity, phase, over);
            tested = barrier;
            tested_over = over;
        }
        if (over) {
            done |= 1u << lane;
        } else {
            waited = barrier;
            wanted = phase;
        }
    }
    if (!run->split->resumed) {
        run->worker->counters.barrier_waits++;
        run->worker->counters.barrier_waits_blocked += done != mask;
    }
    /* try_wait may fail at any time. It fails once, to expose programs that do not retry; a retry suspends the
     * lanes. With simulated time it suspends at once if the program retries. */
    uint32_t here = run->split->pc + 1;
    bool again = run->launch->timing != NULL ? !insn->mbarrier.peeks : run->split->failed_try == here;
    run->split->failed_try = done == mask ? 0 : here;
    if (done == 0 && again && insn->mbarrier.operation == M_TRY_WAIT) {
        return wait_for(run, (struct wait){.kind = WAIT_MBARRIER,
                                           .a = wanted,
                                           .b = parity,
                                           .object = waited,
                                           .ready = barrier_ready,
                                           .what = "mbarrier"});
    }
    set_pred(run, insn->op[0], mask, done);
    return done == mask ? NEXT : YIELD;
}

static enum next exec_pending(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t *d = row(run, insn->op[0]);
    const uint64_t *state = row(run, insn->op[1]);
    LANEWISE(mask, d[l] = (uint32_t)state[l]);
    return NEXT;
}

static void decode_wait(struct decoder *d) {
    struct insn *insn = d->insn;
    insn->mbarrier.by_parity = mod(d, "parity");
    need_operands(d, 3, 4); /* a time limit may follow */
    emit_dst(d, &d->op[0], T_PRED);
    emit(d, src(d, &d->op[2], insn->mbarrier.by_parity ? T_U32 : T_B64));
    emit_address(d, &d->op[1]);
    insn->fn = exec_wait;
}

static void decode_arrive(struct decoder *d) {
    struct insn *insn = d->insn;
    insn->mbarrier.expects_tx = mod(d, "expect_tx");
    (void)mod(d, "noComplete");
    int at = 0;
    if (d->nop > 0 && d->op[0].kind != PO_ADDRESS) {
        emit_dst(d, &d->op[at++], T_B64);
        insn->mbarrier.has_destination = true;
    }
    need_operands(d, at + 1 + (insn->mbarrier.expects_tx ? 1 : 0), at + 2);
    if (d->nop == at + 2) {
        emit(d, src(d, &d->op[at + 1], T_U32));
        insn->mbarrier.has_value = true;
    }
    emit_address(d, &d->op[at]);
    insn->fn = exec_arrive;
}

void decode_mbarrier(struct decoder *d) {
    static const char *const names[] = {"init",        "inval",     "expect_tx", "complete_tx",  "arrive",
                                        "arrive_drop", "test_wait", "try_wait",  "pending_count"};
    static const char *const scopes[] = {"cta", "cluster"};
    struct insn *insn = d->insn;
    /* Look for arrive first: arrive.expect_tx contains expect_tx. */
    int op = mod(d, "arrive") ? M_ARRIVE : mod(d, "arrive_drop") ? M_ARRIVE_DROP : mod_of(d, COUNTED(names));
    if (op < 0) {
        decode_fail(d, "expected an operation, e.g. .init or .arrive");
    }
    insn->mbarrier.operation = (uint8_t)op;
    insn->mbarrier.relaxed = mod(d, "relaxed");
    (void)mod(d, "acquire");
    (void)mod(d, "release");
    insn->mbarrier.of_cta = mod_of(d, COUNTED(scopes)) == 0; /* default: the scope of the barrier's space */
    insn->space = (uint8_t)mod_space(d, SP_GENERIC);
    if (mod_type(d) != T_B64) {
        decode_fail(d, "expected type .b64");
    }
    if (insn->space == SP_GENERIC) {
        insn->space = SP_SHARED_CLUSTER; /* a generic address may name any CTA's */
    }
    switch (op) {
    case M_ARRIVE:
    case M_ARRIVE_DROP:
        decode_arrive(d);
        return;
    case M_TEST_WAIT:
    case M_TRY_WAIT:
        decode_wait(d);
        return;
    case M_PENDING:
        need_operands(d, 2, 2);
        emit_dst(d, &d->op[0], T_U32);
        emit(d, src(d, &d->op[1], T_B64));
        insn->fn = exec_pending;
        return;
    default:
        need_operands(d, op == M_INVAL ? 1 : 2, op == M_INVAL ? 1 : 2);
        if (op != M_INVAL) {
            emit(d, src(d, &d->op[1], T_U32));
            insn->mbarrier.has_value = true;
        }
        emit_address(d, &d->op[0]);
        insn->fn = exec_simple;
    }
}
