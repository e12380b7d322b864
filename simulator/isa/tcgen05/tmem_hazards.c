/* Happens-before checks on tensor memory, at issue.
 *
 * Two tcgen05 operations are ordered if they are a pipelined pair of one thread, or if the second thread has
 * waited for the first's completion. Completion is a clock value. For mma, cp and shift it is released by the
 * mbarrier of the thread's tcgen05.commit; for a warp's ld and st, by what the warp signals after wait::ld or
 * wait::st and fence::before_thread_sync. The other thread must acquire the value and then execute
 * fence::after_thread_sync (PTX ISA, Memory Consistency Model for 5th generation of TensorCore operations). */
#include "tcgen05_state.h"

#include "ptx/dependence.h"

static const char *const names[] = {
    [USE_NONE] = "",         [USE_MMA] = "tcgen05.mma",     [USE_MMA_SOURCE] = "tcgen05.mma (as a source)",
    [USE_CP] = "tcgen05.cp", [USE_SHIFT] = "tcgen05.shift", [USE_LD] = "tcgen05.ld",
    [USE_ST] = "tcgen05.st",
};

bool stream_open(struct run *run, struct stream *stream, bool fenced) {
    if (stream->clock_index == 0) {
        stream->clock_index = new_execution_indices(run, fenced ? 2 : 1);
    }
    return stream->clock_index != 0;
}

static bool of_pipe(unsigned kind) {
    return kind >= USE_MMA && kind <= USE_SHIFT;
}

enum order { ORDERED, REVIEW, UNORDERED };

/* Order of two operations of one thread's pipe if the first is not known to be complete. PTX ISA, Pipelined
 * tcgen05 Instructions: mma -> mma with the same accumulator and shape, cp -> mma, shift -> mma, shift ->
 * cp.4x256b, mma -> shift. A cp that overwrites an earlier mma's scale factors is not among these, but common,
 * so it is a review. */
static enum order pipelined(const struct tmem_record *before, const struct tmem_use *now) {
    bool now_mma = now->kind == USE_MMA || now->kind == USE_MMA_SOURCE;
    switch (before->kind) {
    case USE_MMA:
    case USE_MMA_SOURCE:
        if (now->kind == USE_SHIFT) {
            return ORDERED;
        }
        if (now->kind == USE_CP) {
            return before->kind == USE_MMA_SOURCE ? REVIEW : UNORDERED;
        }
        return before->kind == USE_MMA && now->kind == USE_MMA && before->tag == now->tag ? ORDERED : UNORDERED;
    case USE_CP:
        return now_mma ? ORDERED : now->kind == USE_CP ? REVIEW : UNORDERED;
    case USE_SHIFT:
        return now_mma || now->kind == USE_CP ? ORDERED : UNORDERED;
    default:
        return UNORDERED;
    }
}

static const char *advice(unsigned before, unsigned now, bool same_warp) {
    if (before == USE_MMA && now == USE_LD) {
        return "the accumulator is read before the tcgen05.commit of its last MMA was waited for";
    }
    if (before == USE_MMA_SOURCE && now == USE_CP) {
        return "it overwrites scale factors that an MMA may not have read yet: that MMA's tcgen05.commit has "
               "not been "
               "waited for";
    }
    if (before == USE_LD) {
        return same_warp
                   ? "tcgen05.wait::ld has to come first"
                   : "its reader has not signalled that it is done: wait::ld, fence::before_thread_sync and a "
                     "barrier have to come first";
    }
    if (before == USE_ST) {
        return same_warp
                   ? "tcgen05.wait::st has to come first"
                   : "its writer has not signalled that it is done: wait::st, fence::before_thread_sync and a "
                     "barrier have to come first";
    }
    return "no tcgen05.commit after the first has been waited for, and they are not a pipelined pair";
}

static void report_conflict(struct run *run, const struct cta *cta, enum sim_verdict verdict, const char *kind,
                            const struct tmem_record *before, unsigned now, const char *text) {
    sim_note(run->launch, verdict, kind, cta, (int)run->warp->index, -1, run->insn,
             &run->launch->module->code[before->pc], "%s on tensor memory that %s uses: %s", names[now],
             names[before->kind], text);
}

static void check(struct run *run, const struct cta *cta, const struct tensor_warp *warp,
                  const struct tmem_record *before, const struct tmem_use *now) {
    bool same_warp = before->clock_index == now->clock_index ||
                     before->clock_index == warp->loads.clock_index ||
                     before->clock_index == warp->stores.clock_index;
    const struct stream *own = before->clock_index == warp->loads.clock_index    ? &warp->loads
                               : before->clock_index == warp->stores.clock_index ? &warp->stores
                                                                                 : NULL;
    bool access = before->kind == USE_LD || before->kind == USE_ST;
    if (own != NULL ? before->value <= own->waited
                    : warp->ordered[before->clock_index + access] >= before->value) {
        return;
    }
    bool acquired = own == NULL && run->warp->clock->acquired[before->clock_index] >= before->value;
    if (before->clock_index == now->clock_index && of_pipe(before->kind) && of_pipe(now->kind)) {
        enum order order = pipelined(before, now);
        if (order == ORDERED || acquired) { /* its own commit was waited for, and no other thread is involved */
            return;
        }
        report_conflict(run, cta, order == REVIEW ? SIM_REVIEW : SIM_ERROR,
                        order == REVIEW ? "unpipelined-copy" : "unpipelined-pair", before, now->kind,
                        advice(before->kind, now->kind, true));
        return;
    }
    if (acquired) { /* a review: CUTLASS relies on a barrier without the fences */
        bool released = !access || run->warp->clock->acquired[before->clock_index + 1] >= before->value;
        report_conflict(run, cta, SIM_REVIEW, "missing-tcgen05-fence", before, now->kind,
                        released ? "no tcgen05.fence::after_thread_sync since the barrier that ordered them"
                                 : "no tcgen05.fence::before_thread_sync before the barrier that ordered them");
        return;
    }
    if (same_warp && before->kind == USE_LD && now->kind == USE_ST &&
        depends_on_load(run->launch->module, &run->launch->module->code[before->pc], run->insn)) {
        /* As in tcgen05-register, chips stall the use of a register until its load is done. */
        report_conflict(run, cta, SIM_REVIEW, "tensor-memory-race", before, now->kind,
                        "tcgen05.wait::ld has to come first, though the stored values depend on the load");
        return;
    }
    bool early = before->kind == USE_MMA && now->kind == USE_LD;
    report_conflict(run, cta, SIM_ERROR, early ? "accumulator-early" : "tensor-memory-race", before, now->kind,
                    advice(before->kind, now->kind, same_warp));
}

void use_shared_read(struct run *run, const struct cta *cta, uint32_t offset) {
    const struct tensor_warp *warp = tensor_warp(run);
    /* A write that this warp has not even acquired is reported by the checks on shared memory. */
    const struct insn *writer = hazard_unacquired_write(run->launch, cta, offset, warp->ordered);
    if (writer != NULL &&
        hazard_unacquired_write(run->launch, cta, offset, run->warp->clock->acquired) == NULL) {
        sim_note(
            run->launch, SIM_REVIEW, "missing-tcgen05-fence", cta, (int)run->warp->index, -1, run->insn, writer,
            "reads shared memory that another operation wrote, with no tcgen05.fence::after_thread_sync since "
            "the barrier that ordered them");
    }
}

static void uninitialised(struct run *run, const struct cta *cta, const struct tmem_use *now, int column) {
    sim_note(run->launch, now->kind == USE_LD ? SIM_REVIEW : SIM_ERROR, "tensor-memory-uninitialised", cta,
             (int)run->warp->index, -1, run->insn, NULL,
             "%s reads column %d of tensor memory, which nothing has written", names[now->kind], column);
}

static struct tmem_record record_of(struct run *run, const struct tmem_use *access) {
    return (struct tmem_record){access->value,         (uint32_t)(run->insn - run->launch->module->code),
                                access->tag,           (uint16_t)access->clock_index,
                                (uint8_t)access->kind, false};
}

static bool same_record(const struct tmem_record *a, const struct tmem_record *b) {
    return a->clock_index == b->clock_index && a->value == b->value && a->kind == b->kind && a->pc == b->pc;
}

/* Checks a use against earlier reads. Neighbouring cells mostly have the same history, so a record that was
 * just checked is skipped. */
static void check_readers(struct run *run, const struct cta *cta, const struct tensor_warp *warp,
                          const struct tmem_record *read, uint32_t count, const struct tmem_use *access,
                          struct tmem_record *checked) {
    for (uint32_t i = 0; i < count; i++) {
        if (read[i].kind && !same_record(&read[i], checked)) {
            check(run, cta, warp, &read[i], access);
            *checked = read[i];
        }
    }
}

/* The list of reads that do not fit into a cell. */
static struct reads *more_reads(struct run *run, struct tensor *tensor, struct cell *cell) {
    if (tensor->more == NULL) {
        tensor->more = run_take(run->worker, CELL_ROWS * TMEM_COLUMNS, sizeof *tensor->more);
    }
    struct reads *more = &tensor->more[cell - tensor->cells[0]];
    if (!cell->write.crowded) {
        cell->write.crowded = true;
        more->count = 0;
    }
    return more;
}

/* Records a read, in place of an earlier one with the same clock index if there is one. */
static void add_read(struct run *run, struct tensor *tensor, struct cell *cell, const struct tmem_record *now) {
    for (int i = 0; i < CELL_READS; i++) {
        if (!cell->read[i].kind || cell->read[i].clock_index == now->clock_index) {
            cell->read[i] = *now;
            return;
        }
    }
    struct reads *more = more_reads(run, tensor, cell);
    uint32_t at = 0;
    while (at < more->count && more->record[at].clock_index != now->clock_index) {
        at++;
    }
    RUN_GROW(run->worker, more->record, at, more->room);
    more->count += at == more->count;
    more->record[at] = *now;
}

void use_region(struct run *run, struct cta *cta, const struct tmem_region *region,
                const struct tmem_use *access) {
    struct tensor *tensor = cta->tensor;
    const struct tensor_warp *warp = tensor_warp(run);
    if (tensor->cells == NULL) {
        return;
    }
    struct tmem_record now = record_of(run, access), checked = {0};
    bool reported = !access->read;
    for (int row = 0; row < CELL_ROWS; row++) {
        int first = row % 2 * 16; /* lane within the quarter */
        if (!(region->quarters >> row / 2 & 1) || first + 16 <= region->first_lane ||
            first >= region->first_lane + region->lanes) {
            continue;
        }
        struct cell *cell = &tensor->cells[row][region->column];
        for (int i = 0; i < region->columns; i++, cell++) {
            if (!cell->write.kind && !reported) {
                uninitialised(run, cta, access, region->column + i);
                reported = true;
            }
            if (cell->write.kind && !same_record(&cell->write, &checked)) {
                check(run, cta, warp, &cell->write, access);
                checked = cell->write;
            }
            if (!access->write) {
                add_read(run, tensor, cell, &now);
                continue;
            }
            check_readers(run, cta, warp, cell->read, CELL_READS, access, &checked);
            if (cell->write.crowded) {
                const struct reads *more = more_reads(run, tensor, cell);
                check_readers(run, cta, warp, more->record, more->count, access, &checked);
            }
            cell->write = now;
            memset(cell->read, 0, sizeof cell->read);
        }
    }
}

/* Verdict on freeing a cell now: error if the use may not be over, review if only a fence is missing. */
static enum sim_verdict freed_early(const struct run *run, const struct tensor_warp *warp,
                                    const struct tmem_record *record) {
    bool access = record->kind == USE_LD || record->kind == USE_ST;
    bool fenced = !record->kind || warp->ordered[record->clock_index + access] >= record->value;
    bool own_load = record->clock_index == warp->loads.clock_index;
    bool own_store = record->clock_index == warp->stores.clock_index;
    bool over = fenced || run->warp->clock->acquired[record->clock_index] >= record->value ||
                (own_load && record->value <= warp->loads.waited) ||
                (own_store && record->value <= warp->stores.waited);
    return !over ? SIM_ERROR : !fenced && !own_load && !own_store ? SIM_REVIEW : SIM_CLEAN;
}

/* Reports the first use that is freed too early; true if there was one. */
static bool report_freed(struct run *run, const struct cta *cta, const struct tmem_record *records,
                         uint32_t count) {
    const struct tensor_warp *warp = tensor_warp(run);
    for (uint32_t i = 0; i < count; i++) {
        enum sim_verdict verdict = freed_early(run, warp, &records[i]);
        if (verdict != SIM_CLEAN) {
            bool over = verdict == SIM_REVIEW;
            sim_note(run->launch, verdict, over ? "missing-tcgen05-fence" : "tensor-memory-freed", cta,
                     (int)run->warp->index, -1, run->insn, &run->launch->module->code[records[i].pc],
                     "tcgen05.dealloc of columns that %s uses: %s", names[records[i].kind],
                     over ? "tcgen05.fence::before_thread_sync or ::after_thread_sync is missing at the "
                            "barrier between them"
                          : "its end has not been waited for");
            return true;
        }
    }
    return false;
}

void use_freed(struct run *run, struct cta *cta, int column, int columns) {
    struct tensor *tensor = cta->tensor;
    bool reported = false;
    for (int row = 0; tensor->cells != NULL && row < CELL_ROWS; row++) {
        for (int i = column; i < column + columns; i++) {
            struct cell *cell = &tensor->cells[row][i];
            reported = reported || report_freed(run, cta, &cell->write, 1) ||
                       report_freed(run, cta, cell->read, CELL_READS);
            if (cell->write.crowded) {
                const struct reads *more = more_reads(run, tensor, cell);
                reported = reported || report_freed(run, cta, more->record, more->count);
            }
            memset(cell, 0, sizeof *cell);
        }
    }
}
