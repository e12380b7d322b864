/* Common code of mma, cp, shift and commit: their CTAs, and their records for the checks. The operations of one
 * thread are performed in the order of issue. PTX guarantees this order only for the pipelined pairs; the
 * checks report code that relies on more. */
#include "tcgen05_pipe.h"

/* The CTAs of an operation; returns their number, 0 after a report. */
static int group_ctas(struct run *run, int cta_group, struct cta *ctas[2]) {
    uint32_t rank = run->cta->rank, even = rank & ~1u;
    if (cta_group == 1) {
        ctas[0] = run->cta;
        return 1;
    }
    if (even + 1 >= run->cluster->nctas) {
        (void)sim_report(
            run, SIM_ERROR, "cta-group", -1,
            "%s in CTA rank %u of a cluster of %u: .cta_group::2 needs the CTA of the other parity",
            run->insn->name, rank, run->cluster->nctas);
        return 0;
    }
    for (int i = 0; i < 2; i++) {
        ctas[i] = &run->cluster->ctas[even + (uint32_t)i];
        if (ctas[i]->live_threads == 0) {
            (void)sim_report(run, SIM_ERROR, "cta-group", -1, "%s after the peer CTA has exited",
                             run->insn->name);
            return 0;
        }
    }
    return 2;
}

bool pipe_prepare(struct run *run, int cta_group, struct cta *ctas[2], int *count) {
    *count = group_ctas(run, cta_group, ctas);
    for (int i = 0; i < *count; i++) {
        struct tensor *tensor = tensor_of(run, ctas[i]);
        struct tc_why why;
        if (!tmem_check_cta_group(&tensor->tmem, cta_group, &why)) {
            (void)tensor_refuse(run, "cta-group", &why);
            return false;
        }
    }
    return *count != 0;
}

struct tc_cta pipe_view(struct cta *cta) {
    struct tensor *tensor = cta->tensor;
    return (struct tc_cta){cta->shared, cta->shared_bytes, &tensor->tmem};
}

void pipe_poison(struct cta *cta, const struct tmem_region *region) {
    struct tensor *tensor = cta->tensor;
    for (int lane = 0; lane < TMEM_LANES; lane++) {
        int inside = lane % TMEM_QUARTER_LANES - region->first_lane;
        if (region->quarters >> lane / TMEM_QUARTER_LANES & 1 && inside >= 0 && inside < region->lanes) {
            memset(&tensor->tmem.word[lane][region->column], POISON_BYTE, region->columns * sizeof(uint32_t));
        }
    }
}

void pipe_reads_shared(struct run *run, struct cta *cta, const uint32_t *chunks, int count,
                       const struct epoch *epoch) {
    if (count > 0) {
        use_shared_read(run, cta, chunks[0]);
        hazard_granules(run, cta, chunks, (uint32_t)count, epoch);
    }
}

struct epoch pipe_epoch(struct run *run, const struct tensor_warp *warp) {
    return (struct epoch){warp->pipe.clock_index, warp->pipe.epoch, run->warp->clock, run->warp->number,
                          run->insn};
}
