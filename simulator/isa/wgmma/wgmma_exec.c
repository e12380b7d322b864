/* Execution of wgmma (PTX ISA, Asynchronous Warpgroup Level Matrix Instructions). The four warps of a warpgroup
 * contribute to one operation, which starts when all four have issued it; a warpgroup's operations run in
 * order. */
#include "warpgroup.h"

#include <stdio.h>
#include <stdlib.h>

#include "async/groups.h"
#include "clock/timing.h"

struct warpgroup *warpgroups_make(struct worker *worker, uint32_t count) {
    return run_take(worker, count, sizeof(struct warpgroup));
}

void warpgroups_reset(struct warpgroup *groups, uint32_t count) {
    memset(groups, 0, count * sizeof *groups);
}

void warpgroups_free(struct warpgroup *groups) {
    free(groups);
}

/* ---- the operation ---- */

static bool mma_ready(const struct async_op *op) {
    const struct wgmma *mma = op->payload;
    return mma->issued == 0xf;
}

static uint32_t *reg_lanes(const struct wgmma *mma, int warp, int operand) {
    return (uint32_t *)(void *)(mma->regs[warp] + op_of(mma, operand).off);
}

static void mma_read(struct async_op *op) {
    const struct wgmma *mma = op->payload;
    struct wgmma_data *data = (struct wgmma_data *)(void *)op->data;
    const struct insn *insn = op->insn;
    if (op->cluster->launch->no_values) {
        return;
    }
    if (insn->wgmma.a_registers != 0) {
        for (int warp = 0; warp < 4; warp++) {
            for (int reg = 0; reg < 4; reg++) {
                const uint32_t *lanes = reg_lanes(mma, warp, insn->ndst + reg);
                for (int t = 0; t < LANES; t++) {
                    int r = warp * 16 + t / 4 + reg % 2 * 8;
                    memcpy(&data->a[r][reg / 2 * 16 + t % 4 * 4], &lanes[t], 4);
                }
            }
        }
    } else {
        tc_operand_gather(op->cta->shared, &mma->a_shape, mma->a_chunks, data->a[0], sizeof data->a[0]);
    }
    tc_operand_gather(op->cta->shared, &mma->b_shape, mma->b_chunks, data->b[0], sizeof data->b[0]);
}

/* Accumulator layout: thread t of a warp holds rows t / 4 and t / 4 + 8, columns 8 j + 2 (t % 4) and the next
 * one. So a tile of 8 x 8 elements is one pair from each thread; of 32-bit elements in two registers. */
enum { TILE = 8, PAIRS = TILE / 2 };
typedef uint32_t words __attribute__((vector_size(PAIRS * sizeof(uint32_t))));

static void move_words(uint32_t *d, int n, uint32_t *even, uint32_t *odd, bool out) {
    for (int row = 0; row < TILE; row++, d += n, even += PAIRS, odd += PAIRS) {
        words low, high;
        if (out) {
            memcpy(&low, d, sizeof low);
            memcpy(&high, d + PAIRS, sizeof high);
            words evens = __builtin_shufflevector(low, high, 0, 2, 4, 6);
            words odds = __builtin_shufflevector(low, high, 1, 3, 5, 7);
            memcpy(even, &evens, sizeof evens);
            memcpy(odd, &odds, sizeof odds);
        } else {
            memcpy(&low, even, sizeof low);
            memcpy(&high, odd, sizeof high);
            words first = __builtin_shufflevector(low, high, 0, 4, 1, 5);
            words second = __builtin_shufflevector(low, high, 2, 6, 3, 7);
            memcpy(d, &first, sizeof first);
            memcpy(d + PAIRS, &second, sizeof second);
        }
    }
}

static void move_halves(uint32_t *d, int n, uint32_t *pairs, bool out) {
    for (int row = 0; row < TILE; row++, d += n, pairs += PAIRS) {
        for (int i = 0; i < PAIRS; i++) {
            if (out) {
                pairs[i] = (d[2 * i] & 0xffff) | d[2 * i + 1] << 16;
            } else {
                d[2 * i] = pairs[i] & 0xffff;
                d[2 * i + 1] = pairs[i] >> 16;
            }
        }
    }
}

static void move_accumulators(struct async_op *op, struct wgmma_data *data, bool out) {
    const struct wgmma *mma = op->payload;
    bool half = mma->rule.d == TC_F16;
    int n = op->insn->wgmma.n, step = half ? 1 : 2;
    for (int warp = 0; warp < 4; warp++) {
        for (int reg = 0; reg < op->insn->ndst; reg += step) {
            int lower = reg / step % 2, tile = reg / step / 2;
            uint32_t *d = &data->d[(warp * 2 + lower) * TILE * n + tile * TILE];
            if (half) {
                move_halves(d, n, reg_lanes(mma, warp, reg), out);
            } else {
                move_words(d, n, reg_lanes(mma, warp, reg), reg_lanes(mma, warp, reg + 1), out);
            }
        }
    }
}

#define NAMES_TWICE "metadata 0x%x (bits %d to %d) for row %d, chunk %d of A selects the same position twice"

/* Reports metadata that selects the same element twice. True if all of it belongs to stored zeros, so that the
 * result does not depend on it. */
static bool only_zeros_concerned(const struct async_op *op, const struct wgmma_data *data) {
    const struct wgmma *mma = op->payload;
    const struct wgmma_form *form = op->insn->wgmma.form;
    int chunks = (int)tc_row_bytes(&mma->rule, mma->rule.a) / (2 * tc_sparse_unit(mma->rule.a));
    bool nothing = true;
    for (int place = 0; nothing && place < 64 * chunks; place++) {
        int row = place / chunks, chunk = place % chunks, nibble;
        uint8_t metadata = mma->metadata[row][chunk];
        if (!tc_sparse_legal(metadata, mma->rule.a, false)) {
            int lane = tc_sparse_place(mma->rule.a, chunks, form->selector, row, chunk, &nibble);
            nothing = tc_sparse_idle(metadata, mma->rule.a, data->a[row], chunk);
            sim_note(op->cluster->launch, nothing ? SIM_REVIEW : SIM_ERROR, "sparse-metadata", op->cta,
                     (int)mma->warp[row / 16]->index, lane, op->insn, NULL, NAMES_TWICE "%s", metadata,
                     4 * nibble, 4 * nibble + 3, row, chunk, nothing ? ", only for stored zeros" : "");
        }
    }
    return nothing;
}

static void mma_write(struct async_op *op) {
    const struct wgmma *mma = op->payload;
    struct wgmma_data *data = (struct wgmma_data *)(void *)op->data;
    if (op->cluster->launch->no_values) {
        return;
    }
    if (mma->names_twice && !only_zeros_concerned(op, data)) {
        return;
    }
    uint32_t *rows[64];
    for (int i = 0; i < 64; i++) {
        rows[i] = data->d + (uint32_t)i * op->insn->wgmma.n;
    }
    if (mma->accumulate) {
        move_accumulators(op, data, false);
    }
    struct tc_mma_operands operands = {
        .a = data->a[0], .b = data->b[0], .a_stride = sizeof data->a[0], .b_stride = sizeof data->b[0]};
    if (op->insn->wgmma.form->sparse) {
        struct tc_sparse sparse = {mma->metadata[0], sizeof mma->metadata[0], tc_sparse_unit(mma->rule.a)};
        tc_mma_sparse_tile(&mma->rule, &operands, &sparse, rows, 64, op->insn->wgmma.n, mma->accumulate);
    } else {
        tc_mma_tile(&mma->rule, &operands, rows, 64, op->insn->wgmma.n, mma->accumulate);
    }
    move_accumulators(op, data, true);
}

static void mma_complete(struct async_op *op) {
    struct wgmma *mma = op->payload;
    for (int warp = 0; warp < 4; warp++) {
        group_finish(mma->warp[warp], GROUP_WGMMA, mma->group[warp]);
    }
    mma->owner->operations[mma->number % WGMMA_AHEAD] = NULL;
}

static void mma_poison(struct async_op *op) {
    const struct wgmma *mma = op->payload;
    /* Only if D is overwritten completely. */
    for (int warp = 0; warp < 4 && mma->issued == 0xf && !mma->accumulate; warp++) {
        for (int reg = 0; reg < op->insn->ndst; reg++) {
            memset(reg_lanes(mma, warp, reg), POISON_BYTE, ROW32);
        }
    }
}

static void mma_timed(struct run *run, struct async_op *op) {
    event_add_stage(run->launch->timing, op, op->cta, time_wgmma(run, &op->turn), ASYNC_DONE);
}

static const struct async_kind wgmma_kind = {"wgmma",    mma_read,  mma_write, mma_complete,
                                             mma_poison, mma_ready, mma_timed};

/* ---- instructions ---- */

enum next wgmma_fence(struct run *run, const struct insn *insn, uint32_t mask) {
    (void)insn;
    (void)mask;
    run->warp->fence_epoch++;
    run->warp->fence_used = false;
    return NEXT;
}

enum next wgmma_commit_group(struct run *run, const struct insn *insn, uint32_t mask) {
    (void)insn;
    (void)mask;
    return groups_commit(run, GROUP_WGMMA);
}

enum next wgmma_wait_group(struct run *run, const struct insn *insn, uint32_t mask) {
    (void)mask;
    uint32_t pending = insn->group.pending, open = group_current(run->warp, GROUP_WGMMA);
    enum next next = groups_wait(run, GROUP_WGMMA, pending, false);
    if (next == NEXT) {
        uint32_t before = run->warp->npending;
        wgmma_release_registers(run, open - 1 > pending ? open - 1 - pending : 0);
        const struct vector_clock *issuers = run->cta->warpgroups[run->warp->index / 4].issuers;
        if (issuers != NULL && run->warp->npending != before) { /* all four warps issued a completed wgmma */
            causal_join(run->cluster, run->warp->clock, issuers);
        }
    }
    return next;
}

/* Reports registers written since the last wgmma.fence: the tensor cores may not see the new values. */
static void check_fence(struct run *run, const struct insn *insn) {
    const struct launch *launch = run->launch;
    if (launch->reordered) {
        return;
    }
    uint32_t base = launch->reg_base[run->split->function->index];
    for (uint32_t i = 0; i < wgmma_registers_used(insn); i++) {
        uint32_t written = run->warp->reg_written[(base + insn->op[i].off) / ROW32];
        if (written >> WRITE_BITS == run->warp->fence_epoch && written % (1 << WRITE_BITS) != BY_CONSTANT) {
            /* Only a review for register copies, which nvcc inserts itself; ptxas then serialises the wgmma
             * (note C7510). */
            bool copied = written % (1 << WRITE_BITS) == BY_COPY;
            (void)sim_report_pair(run, copied ? SIM_REVIEW : SIM_ERROR, "missing-wgmma-fence", -1, NULL,
                                  "uses a register that was %s after the last wgmma.fence%s",
                                  copied ? "copied to" : "written",
                                  run->warp->fence_epoch == 1 ? " (there has been none)" : "");
            return;
        }
    }
}

static bool make_operand(struct run *run, uint64_t bits, const struct tc_operand_shape *shape, uint32_t *chunks,
                         int *count) {
    struct tc_matrix_descriptor descriptor;
    struct tc_why why;
    if (!tc_decode_wgmma_descriptor(bits, &descriptor, &why)) {
        (void)sim_report(run, SIM_ERROR, "matrix-descriptor", -1, "%s", why.text);
        return false;
    }
    *count = tc_operand_chunks(&descriptor, shape, run->cta->shared_bytes, chunks, &why);
    if (*count < 0) {
        (void)sim_report(run, SIM_ERROR, "matrix-descriptor", -1, "%s", why.text);
        return false;
    }
    return true;
}

static bool uniform(const struct run *run, struct operand operand, uint32_t mask, uint64_t *value) {
    *value = lane_u64(run, operand, __builtin_ctz(mask));
    return lanes_with(run, operand, mask, *value) == mask;
}

static void record_operand(struct run *run, const struct wgmma *mma, const uint32_t *chunks, int count) {
    struct epoch epoch = {mma->owner->clock_index, mma->number + 1, mma->clock, run->warp->number, run->insn};
    hazard_granules(run, run->cta, chunks, (uint32_t)count, &epoch);
}

/* Reads the metadata of the warp's 16 rows, at issue. */
static bool take_metadata(struct run *run, const struct insn *insn, uint32_t at, struct wgmma *mma) {
    const struct wgmma_form *form = insn->wgmma.form;
    int chunks = (int)tc_row_bytes(&form->rule, form->rule.a) / (2 * tc_sparse_unit(form->rule.a));
    int first = (int)run->warp->index % 4 * 16;
    for (int row = first; row < first + 16; row++) {
        for (int chunk = 0; chunk < chunks; chunk++) {
            int nibble, lane = tc_sparse_place(form->rule.a, chunks, form->selector, row, chunk, &nibble);
            uint8_t metadata = lane_u32(run, insn->op[at], lane) >> 4 * nibble & 15;
            if (!tc_sparse_legal(metadata, form->rule.a, false)) {
                if (form->rule.a != TC_TF32) { /* reported later, with the values it belongs to */
                    mma->names_twice = true;
                } else {
                    (void)sim_report(run, SIM_ERROR, "sparse-metadata", lane, NAMES_TWICE " or half an element",
                                     metadata, 4 * nibble, 4 * nibble + 3, row, chunk);
                    return false;
                }
            }
            mma->metadata[row][chunk] = metadata;
        }
    }
    return true;
}

/* op: D's registers, A's registers or descriptor, B's descriptor, [metadata if A is sparse], scale-d. */
enum next wgmma_mma(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct wgmma_form *form = insn->wgmma.form;
    struct warp *warp = run->warp;
    struct warpgroup *group = &run->cta->warpgroups[warp->index / 4];
    uint32_t quarter = warp->index % 4, at = insn->ndst;
    uint64_t a = 0, b;
    if (run->cta->nwarps < warp->index / 4 * 4 + 4) {
        return sim_report(run, SIM_ERROR, "wgmma-warps", -1, "wgmma in a warpgroup of fewer than four warps");
    }
    if (warp->npending >= WGMMA_AHEAD) {
        return sim_report(run, SIM_INCOMPLETE, "wgmma", -1, "more than %d wgmma in flight", WGMMA_AHEAD);
    }
    uint32_t b_at = at + (insn->wgmma.a_registers != 0 ? 4u : 1u);
    if ((insn->wgmma.a_registers == 0 && !uniform(run, insn->op[at], mask, &a)) ||
        !uniform(run, insn->op[b_at], mask, &b)) {
        return sim_report(run, SIM_ERROR, "matrix-descriptor", -1,
                          "the matrix descriptor differs between lanes");
    }
    uint32_t scale = pred(run, insn->op[b_at + (form->sparse ? 2 : 1)]) & mask;
    uint32_t number = group->issued[quarter]++;
    struct async_op **place = &group->operations[number % WGMMA_AHEAD];
    struct wgmma *mma;
    check_fence(run, insn);
    run->warp->fence_used = true;
    if (*place == NULL) {
        struct async_op *op = async_new(run, &wgmma_kind, -1, sizeof *mma,
                                        sizeof(struct wgmma_data) + 64 * sizeof(uint32_t) * insn->wgmma.n);
        mma = op->payload;
        mma->owner = group;
        mma->number = number;
        mma->insn = insn;
        mma->rule = form->rule;
        mma->a_shape = form->a;
        mma->b_shape = form->b;
        mma->accumulate = scale != 0;
        mma->a_bits = a;
        mma->b_bits = b;
        op->queue = group;
        if ((insn->wgmma.a_registers == 0 && !make_operand(run, a, &mma->a_shape, mma->a_chunks, &mma->na)) ||
            !make_operand(run, b, &mma->b_shape, mma->b_chunks, &mma->nb)) {
            async_drop(op);
            return FAIL;
        }
        if (run->cluster->checks) {
            group->clock_index = group->clock_index == 0 ? new_clock_index(run) : group->clock_index;
            if (group->clock_index == 0) {
                async_drop(op);
                return FAIL;
            }
            mma->clock = vclock_make(run->cluster);
        }
        *place = op;
    }
    struct async_op *op = *place;
    mma = op->payload;
    if (mma->insn != insn || mma->a_bits != a || mma->b_bits != b || mma->number != number ||
        mma->accumulate != (scale != 0)) {
        return sim_report_pair(
                   run, SIM_ERROR, "wgmma-warps", -1, mma->insn,
                   "the warps of a warpgroup execute different wgmma: instruction, descriptors or scale-d"),
               FAIL;
    }
    if (form->sparse && !take_metadata(run, insn, b_at + 1, mma)) {
        return FAIL;
    }
    mma->issued |= 1u << quarter;
    mma->warp[quarter] = warp;
    mma->regs[quarter] = run->base[BASE_REGS];
    mma->group[quarter] = group_current(warp, GROUP_WGMMA);
    group_add(run, GROUP_WGMMA);
    *pending_new(run) =
        (struct in_flight){insn, run->split->function, mma->group[quarter], group->clock_index, number + 1};
    wgmma_mark_registers(warp, run->split->function, insn, 1);
    if (run->cluster->checks) {
        vclock_join(run->cluster, mma->clock, warp->clock);
        warp_tick(warp); /* later waits of the warp are not ordered before this wgmma */
    }
    if (mma->issued == 0xf) {
        if (run->cluster->checks) {
            record_operand(run, mma, mma->a_chunks, mma->na);
            record_operand(run, mma, mma->b_chunks, mma->nb);
            group->issuers = group->issuers == NULL ? vclock_make(run->cluster) : group->issuers;
            causal_join(run->cluster, group->issuers, mma->clock);
            vclock_release(run->cluster, mma->clock);
        }
        count_mma(run, 64, insn->wgmma.n, form->rule.k);
        run->worker->counters.tensor_cycles +=
            insn->wgmma.n / 2; /* HW: m64nNk16 (32 bytes of K) in N / 2 cycles */
        async_issue(run, op);
    } else if (run->launch->timing != NULL) {
        time_mma_early(run);
    }
    return NEXT;
}
