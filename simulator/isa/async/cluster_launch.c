/* clusterlaunchcontrol (PTX ISA, Miscellaneous: try_cancel, query_cancel).  A request may always fail: here
 * every cluster of the grid is launched, so that it always does, and the answer of 16 bytes is zero. */
#include "async/bulk.h"
#include "decode.h"

enum { ANSWER_BYTES = 16 };
static const uint8_t no[ANSWER_BYTES];

/* op: the answer's place, its barrier */
static enum next exec_try_cancel(struct run *run, const struct insn *insn, uint32_t mask) {
    const int64_t *offsets = insn->cancel.offsets;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        uint64_t to = operand_address(run, insn, offsets, 0, lane) & ~WINDOW_MASK;
        uint64_t barrier = operand_address(run, insn, offsets, 1, lane) & ~WINDOW_MASK;
        int64_t everyone = insn->cancel.multicast ? ((int64_t)1 << run->cluster->nctas) - 1 : -1;
        struct load load = {.bytes = ANSWER_BYTES, .from = (uintptr_t)no};
        if (!make_destinations(run, &load, to, barrier, ANSWER_BYTES, ANSWER_BYTES, lane, everyone, 1)) {
            return FAIL;
        }
        record_destinations(run, &load, ANSWER_BYTES, 0);
        struct async_op *op = async_new(run, &load_kind, lane, sizeof load, ANSWER_BYTES);
        memcpy(op->payload, &load, sizeof load);
        async_issue(run, op);
    }
    return run->cluster->failed ? FAIL : NEXT;
}

static enum next exec_is_canceled(struct run *run, const struct insn *insn, uint32_t mask) {
    set_pred(run, insn->op[0], mask, 0);
    return NEXT;
}

static enum next exec_first_ctaid(struct run *run, const struct insn *insn, uint32_t mask) {
    (void)mask;
    return sim_report(run, SIM_ERROR, "launch-control", -1,
                      "%s of an answer that says no: is_canceled has to be asked first", insn->name);
}

void decode_clusterlaunchcontrol(struct decoder *d) {
    static const char *const places[] = {"get_first_ctaid", "get_first_ctaid::x", "get_first_ctaid::y",
                                         "get_first_ctaid::z", NULL};
    struct insn *insn = d->insn;
    if (mod(d, "try_cancel")) {
        int64_t *offsets = take_offsets(d);
        bool whole = mod(d, "async") && mod(d, "mbarrier::complete_tx::bytes") && mod(d, "b128");
        (void)mod_space(d, SP_SHARED);
        insn->cancel.multicast = mod(d, "multicast::cluster::all");
        if (!whole) {
            decode_fail(d, "unknown form");
        }
        need_operands(d, 2, 2);
        insn->cancel.offsets = offsets;
        emit_offset_address(d, &d->op[0], offsets);
        emit_offset_address(d, &d->op[1], offsets);
        insn->fn = exec_try_cancel;
        return;
    }
    if (!mod(d, "query_cancel")) {
        decode_fail(d, "neither .try_cancel nor .query_cancel");
    }
    need_operands(d, 2, 2);
    if (mod(d, "is_canceled")) {
        if (!mod(d, "pred")) {
            decode_fail(d, "unknown form");
        }
        emit(d, dst(d, &d->op[0], T_PRED));
        insn->fn = exec_is_canceled;
    } else if (mod_of(d, places) >= 0) {
        uint32_t count;
        const struct pop *list = elements(&d->op[0], &count);
        bool vector = mod(d, "v4");
        if (!mod(d, "b32") || count != (vector ? 4u : 1u)) {
            decode_fail(d, "unknown form");
        }
        for (uint32_t i = 0; i < count; i++) {
            emit(d, dst(d, &list[i], T_B32));
        }
        insn->fn = exec_first_ctaid;
    } else {
        decode_fail(d, "unknown form");
    }
    insn->ndst = (uint8_t)d->nout;
    if (!mod(d, "b128")) {
        decode_fail(d, "without .b128");
    }
    emit_halves(d, src(d, &d->op[1], T_B128));
}
