/* Happens-before checks on tensor memory, at issue.
 *
 * Two things order tcgen05 operations: the PTX ISA's pipelined pairs, between operations of one thread, and
 * completion that was waited for.  Completion is a clock value: of a thread's pipe (mma, cp, shift) it travels
 * with the mbarrier of its tcgen05.commit, of a warp's ld and st with what the warp signals after wait and
 * fence::before_thread_sync.  Having seen it is enough once fence::after_thread_sync has followed (PTX ISA,
 * "Memory Consistency Model for 5th generation of TensorCore operations"). */
#include "state.h"

#include <stdio.h>

static const char *const names[] = {
    [MARK_NONE] = "",         [MARK_MMA] = "tcgen05.mma",     [MARK_MMA_SOURCE] = "tcgen05.mma (as a source)",
    [MARK_CP] = "tcgen05.cp", [MARK_SHIFT] = "tcgen05.shift", [MARK_LD] = "tcgen05.ld",
    [MARK_ST] = "tcgen05.st",
};

bool stream_open(struct run *run, struct stream *stream, bool fenced) {
    if (stream->slot == 0) {
        stream->slot = execution_slot(run->cluster, fenced ? 2 : 1);
        if (stream->slot == 0) {
            (void)sim_report(run, SIM_INCOMPLETE, "tensor-memory", -1,
                             "more tcgen05 threads and mbarriers than the checks can follow");
            return false;
        }
    }
    return true;
}

static bool of_pipe(unsigned kind) {
    return kind >= MARK_MMA && kind <= MARK_SHIFT;
}

enum order { ORDERED, REVIEW, UNORDERED };

/* Operations of one thread's pipe, the first not known to be complete.  PTX ISA "Pipelined tcgen05
 * Instructions": mma -> mma with the same accumulator and shape, cp -> mma, shift -> mma, shift -> cp.4x256b,
 * mma -> shift.  An mma and a cp after it onto its scale factors is not among them, but common practice. */
static enum order pipelined(const struct mark *before, const struct mark_access *now) {
    bool now_mma = now->kind == MARK_MMA || now->kind == MARK_MMA_SOURCE;
    switch (before->kind) {
    case MARK_MMA:
    case MARK_MMA_SOURCE:
        if (now->kind == MARK_SHIFT) {
            return ORDERED;
        }
        if (now->kind == MARK_CP) {
            return before->kind == MARK_MMA_SOURCE ? REVIEW : UNORDERED;
        }
        return before->kind == MARK_MMA && now->kind == MARK_MMA && before->tag == now->tag ? ORDERED
                                                                                            : UNORDERED;
    case MARK_CP:
        return now_mma ? ORDERED : now->kind == MARK_CP ? REVIEW : UNORDERED;
    case MARK_SHIFT:
        return now_mma || now->kind == MARK_CP ? ORDERED : UNORDERED;
    default:
        return UNORDERED;
    }
}

static const char *advice(unsigned before, unsigned now, bool same_warp) {
    if (before == MARK_MMA && now == MARK_LD) {
        return "the accumulator is read before the tcgen05.commit of its last MMA was waited for";
    }
    if (before == MARK_MMA_SOURCE && now == MARK_CP) {
        return "it overwrites scale factors that an MMA may not have read yet: that MMA's tcgen05.commit has "
               "not been "
               "waited for";
    }
    if (before == MARK_LD) {
        return same_warp
                   ? "tcgen05.wait::ld has to come first"
                   : "its reader has not signalled that it is done: wait::ld, fence::before_thread_sync and a "
                     "barrier have to come first";
    }
    if (before == MARK_ST) {
        return same_warp
                   ? "tcgen05.wait::st has to come first"
                   : "its writer has not signalled that it is done: wait::st, fence::before_thread_sync and a "
                     "barrier have to come first";
    }
    return "a tcgen05.commit after the former has not been waited for, and they are no pipelined pair";
}

static void accuse(struct run *run, const struct cta *cta, enum sim_verdict verdict, const char *kind,
                   const struct mark *before, unsigned now, const char *text) {
    char message[400];
    (void)snprintf(message, sizeof message, "%s on tensor memory that %s uses: %s", names[now],
                   names[before->kind], text);
    sim_note(run->launch, verdict, kind, cta, (int)run->warp->index, -1, run->insn,
             &run->launch->module->code[before->pc], message);
}

static void check(struct run *run, const struct cta *cta, const struct tensor_warp *warp,
                  const struct mark *before, const struct mark_access *now) {
    bool same_warp =
        before->slot == now->slot || before->slot == warp->loads.slot || before->slot == warp->stores.slot;
    const struct stream *own = before->slot == warp->loads.slot    ? &warp->loads
                               : before->slot == warp->stores.slot ? &warp->stores
                                                                   : NULL;
    bool access = before->kind == MARK_LD || before->kind == MARK_ST;
    if (own != NULL ? before->value <= own->waited : warp->ordered[before->slot + access] >= before->value) {
        return;
    }
    bool seen = own == NULL && run->warp->clock->seen[before->slot] >= before->value;
    if (before->slot == now->slot && of_pipe(before->kind) && of_pipe(now->kind)) {
        enum order order = pipelined(before, now);
        if (order == ORDERED || seen) { /* its own commit, waited for: no other thread is involved */
            return;
        }
        accuse(run, cta, order == REVIEW ? SIM_REVIEW : SIM_ERROR,
               order == REVIEW ? "unpipelined-copy" : "unpipelined-pair", before, now->kind,
               advice(before->kind, now->kind, true));
        return;
    }
    if (seen) { /* complete and told by a barrier: CUTLASS relies on that alone */
        bool told = !access || run->warp->clock->seen[before->slot + 1] >= before->value;
        accuse(run, cta, SIM_REVIEW, "missing-tcgen05-fence", before, now->kind,
               told ? "no tcgen05.fence::after_thread_sync since the barrier that ordered them"
                    : "no tcgen05.fence::before_thread_sync in front of the barrier that ordered them");
        return;
    }
    bool early = before->kind == MARK_MMA && now->kind == MARK_LD;
    accuse(run, cta, SIM_ERROR, early ? "accumulator-early" : "tensor-memory-race", before, now->kind,
           advice(before->kind, now->kind, same_warp));
}

void mark_shared_read(struct run *run, const struct cta *cta, uint32_t offset) {
    const struct tensor_warp *warp = tensor_warp(run);
    /* What this warp itself has not seen is an error that the checks of shared memory find. */
    const struct insn *writer = hazard_unseen_write(run->launch, cta, offset, warp->ordered);
    if (writer != NULL && hazard_unseen_write(run->launch, cta, offset, run->warp->clock->seen) == NULL) {
        sim_note(
            run->launch, SIM_REVIEW, "missing-tcgen05-fence", cta, (int)run->warp->index, -1, run->insn, writer,
            "reads shared memory that another operation wrote, with no tcgen05.fence::after_thread_sync since "
            "the barrier that ordered them");
    }
}

static void uninitialised(struct run *run, const struct cta *cta, const struct mark_access *now, int column) {
    char message[200];
    (void)snprintf(message, sizeof message, "%s reads column %d of tensor memory, which nothing has written",
                   names[now->kind], column);
    sim_note(run->launch, now->kind == MARK_LD ? SIM_REVIEW : SIM_ERROR, "tensor-memory-uninitialised", cta,
             (int)run->warp->index, -1, run->insn, NULL, message);
}

static struct mark mark_of(struct run *run, const struct mark_access *access) {
    return (struct mark){access->value, (uint32_t)(run->insn - run->launch->module->code), access->tag,
                         (uint16_t)access->slot, (uint8_t)access->kind};
}

static bool same_mark(const struct mark *a, const struct mark *b) {
    return a->slot == b->slot && a->value == b->value && a->kind == b->kind && a->pc == b->pc;
}

void mark_region(struct run *run, struct cta *cta, const struct tmem_region *region,
                 const struct mark_access *access) {
    struct tensor *tensor = cta->tensor;
    const struct tensor_warp *warp = tensor_warp(run);
    if (tensor->cells == NULL) {
        return;
    }
    struct mark now = mark_of(run, access), checked = {0};
    bool told = !access->read;
    for (int row = 0; row < CELL_ROWS; row++) {
        int first = row % 2 * 16; /* of the quarter's lanes */
        if (!(region->quarters >> row / 2 & 1) || first + 16 <= region->first_lane ||
            first >= region->first_lane + region->lanes) {
            continue;
        }
        struct cell *cell = &tensor->cells[row][region->column];
        for (int i = 0; i < region->columns; i++, cell++) {
            /* Neighbours have mostly the same history: a mark just checked is not checked again. */
            if (!cell->write.kind && !told) {
                uninitialised(run, cta, access, region->column + i);
                told = true;
            }
            if (cell->write.kind && !same_mark(&cell->write, &checked)) {
                check(run, cta, warp, &cell->write, access);
                checked = cell->write;
            }
            for (int r = 0; r < CELL_READS; r++) {
                if (access->write && cell->read[r].kind && !same_mark(&cell->read[r], &checked)) {
                    check(run, cta, warp, &cell->read[r], access);
                    checked = cell->read[r];
                }
            }
            if (access->write) {
                cell->write = now;
                memset(cell->read, 0, sizeof cell->read);
                continue;
            }
            int at = 0;
            while (at < CELL_READS - 1 && cell->read[at].kind && cell->read[at].slot != now.slot) {
                at++;
            }
            cell->read[at] = now;
        }
    }
}

void mark_freed(struct run *run, struct cta *cta, int column, int columns) {
    struct tensor *tensor = cta->tensor;
    const struct tensor_warp *warp = tensor_warp(run);
    bool told = false;
    for (int row = 0; tensor->cells != NULL && row < CELL_ROWS; row++) {
        for (int i = column; i < column + columns; i++) {
            struct cell *cell = &tensor->cells[row][i];
            struct mark marks[1 + CELL_READS];
            marks[0] = cell->write;
            memcpy(marks + 1, cell->read, sizeof cell->read);
            for (int m = 0; m < 1 + CELL_READS && !told; m++) {
                const struct mark *mark = &marks[m];
                bool access = mark->kind == MARK_LD || mark->kind == MARK_ST;
                bool fenced = !mark->kind || warp->ordered[mark->slot + access] >= mark->value;
                bool own = mark->slot == warp->loads.slot || mark->slot == warp->stores.slot;
                bool over = fenced || run->warp->clock->seen[mark->slot] >= mark->value ||
                            (mark->slot == warp->loads.slot && mark->value <= warp->loads.waited) ||
                            (mark->slot == warp->stores.slot && mark->value <= warp->stores.waited);
                if (!over || (!fenced && !own)) {
                    char message[300];
                    (void)snprintf(
                        message, sizeof message, "tcgen05.dealloc of columns that %s uses: %s",
                        names[mark->kind],
                        over ? "tcgen05.fence::before_thread_sync or ::after_thread_sync is missing at the "
                               "barrier between them"
                             : "its end has not been waited for");
                    sim_note(run->launch, over ? SIM_REVIEW : SIM_ERROR,
                             over ? "missing-tcgen05-fence" : "tensor-memory-freed", cta, (int)run->warp->index,
                             -1, run->insn, &run->launch->module->code[mark->pc], message);
                    told = true; /* one finding a dealloc */
                }
            }
            memset(cell, 0, sizeof *cell);
        }
    }
}
