/* clusterlaunchcontrol (PTX ISA, Miscellaneous: try_cancel, query_cancel). A request takes the last cluster of
 * the grid that has not started; if the whole grid fits on the chip at once, all clusters have started, as on a
 * card, and it gets none. The encoding of the 16-byte answer is our own: success, and the first CTA's
 * coordinates. */
#include "async/bulk.h"
#include "async_decode.h"

enum { ANSWER_BYTES = 16 };
struct answer {
    uint32_t taken, at[3];
};
_Static_assert(sizeof(struct answer) == ANSWER_BYTES, "an answer has 16 bytes");

static struct answer ask(struct run *run) {
    struct launch *launch = run->launch;
    struct answer answer = {0};
    uint64_t number;
    if (claim_cluster(launch, true, &number)) {
        answer.taken = 1;
        unfold(number, launch->clusters, answer.at);
        for (int i = 0; i < 3; i++) {
            answer.at[i] *= launch->cluster[i];
        }
    }
    return answer;
}

/* op: address of the answer, barrier */
static enum next exec_try_cancel(struct run *run, const struct insn *insn, uint32_t mask) {
    const int64_t *offsets = insn->cancel.offsets;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        uint64_t to = operand_address(run, insn, offsets, 0, lane) & ~WINDOW_MASK;
        uint64_t barrier = operand_address(run, insn, offsets, 1, lane) & ~WINDOW_MASK;
        int64_t everyone = insn->cancel.multicast ? ((int64_t)1 << run->cluster->nctas) - 1 : -1;
        struct load load = {.bytes = ANSWER_BYTES, .answer = true};
        if (!make_destinations(run, &load, to, barrier, ANSWER_BYTES, ANSWER_BYTES, lane, everyone, 1)) {
            return FAIL;
        }
        record_destinations(run, &load, ANSWER_BYTES, 0);
        struct answer answer = ask(run);
        struct async_op *op = async_new(run, &load_kind, lane, sizeof load + sizeof answer, ANSWER_BYTES);
        uint8_t *kept = (uint8_t *)op->payload + sizeof load; /* the source that the copy reads later */
        load.from = (uintptr_t)kept;
        memcpy(op->payload, &load, sizeof load);
        memcpy(kept, &answer, sizeof answer);
        async_issue(run, op);
    }
    return run->cluster->failed ? FAIL : NEXT;
}

/* The answer in a lane's 128-bit register, whose halves are the last two operands. */
static struct answer answer_of(const struct run *run, const struct insn *insn, int lane) {
    uint64_t halves[2] = {lane_u64(run, insn->op[insn->nop - 2], lane),
                          lane_u64(run, insn->op[insn->nop - 1], lane)};
    struct answer answer;
    memcpy(&answer, halves, sizeof answer);
    return answer;
}

static enum next exec_is_canceled(struct run *run, const struct insn *insn, uint32_t mask) {
    uint32_t taken = 0;
    FOR_LANES(rest, mask) {
        taken |= (uint32_t)(answer_of(run, insn, LANE(rest)).taken == 1) << LANE(rest);
    }
    set_pred(run, insn->op[0], mask, taken);
    return NEXT;
}

/* op: x, y, z and an undefined fourth value, or only dimension insn->cancel.dimension; then the answer. */
static enum next exec_first_ctaid(struct run *run, const struct insn *insn, uint32_t mask) {
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        struct answer answer = answer_of(run, insn, lane);
        if (answer.taken != 1) {
            return sim_report(run, SIM_ERROR, "launch-control", lane,
                              "%s of a request that failed: check query_cancel.is_canceled first", insn->name);
        }
        for (int i = 0; i < insn->ndst; i++) {
            int dimension = insn->ndst == 1 ? insn->cancel.dimension : i;
            ((uint32_t *)row(run, insn->op[i]))[lane] = dimension < 3 ? answer.at[dimension] : 0;
        }
    }
    return NEXT;
}

void decode_clusterlaunchcontrol(struct decoder *d) {
    static const char *const places[] = {"get_first_ctaid", "get_first_ctaid::x", "get_first_ctaid::y",
                                         "get_first_ctaid::z"};
    struct insn *insn = d->insn;
    if (mod(d, "try_cancel")) {
        int64_t *offsets = take_offsets(d);
        bool whole = mod(d, "async") && mod(d, "mbarrier::complete_tx::bytes") && mod(d, "b128");
        (void)mod_space(d, SP_SHARED);
        insn->cancel.multicast = mod(d, "multicast::cluster::all");
        if (!whole) {
            decode_fail(d, "expected .try_cancel.async.mbarrier::complete_tx::bytes.b128");
        }
        need_operands(d, 2, 2);
        insn->cancel.offsets = offsets;
        emit_offset_address(d, &d->op[0], offsets);
        emit_offset_address(d, &d->op[1], offsets);
        insn->fn = exec_try_cancel;
        return;
    }
    if (!mod(d, "query_cancel")) {
        decode_fail(d, "expected .try_cancel or .query_cancel");
    }
    need_operands(d, 2, 2);
    int place;
    if (mod(d, "is_canceled")) {
        if (!mod(d, "pred")) {
            decode_fail(d, "expected .query_cancel.is_canceled.pred.b128");
        }
        emit_dst(d, &d->op[0], T_PRED);
        insn->fn = exec_is_canceled;
    } else if ((place = mod_of(d, COUNTED(places))) >= 0) {
        bool vector = mod(d, "v4");
        int count = emit_vector(d, &d->op[0], true, T_B32);
        if (!mod(d, "b32") || count != (vector ? 4 : 1) || vector != (place == 0)) {
            decode_fail(
                d, "expected .get_first_ctaid.v4.b32.b128 or, for one number, .get_first_ctaid::x.b32.b128");
        }
        insn->cancel.dimension = (uint8_t)(place == 0 ? 0 : place - 1);
        insn->fn = exec_first_ctaid;
    } else {
        decode_fail(d, "expected .is_canceled or .get_first_ctaid");
    }
    if (!mod(d, "b128")) {
        decode_fail(d, "expected .b128");
    }
    emit_halves(d, src(d, &d->op[1], T_B128));
}
