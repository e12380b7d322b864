/* Checks that a CTA still exists while another CTA of the cluster uses its shared memory (CUDA programming
 * guide, distributed shared memory: it has to exist until the access is complete).
 *
 * Two checks, of which one fires in every schedule: machine/address.c reports an access to a CTA that has
 * ended, and this file reports the end of a CTA that is not ordered after every earlier access to it. */
#include <stdio.h>
#include <stdlib.h>

#include "hazard/hazard.h"

/* The last use of a CTA by other CTAs, by clock index: a clock with its value knows that the use is over. */
struct remote_uses {
    struct remote_use {
        const struct insn *insn; /* NULL: none */
        uint32_t value, warp;
    } *use;
    struct vector_clock *ended; /* what the threads of the CTA had acquired when they ended */
};

void remote_make(struct cta *cta) {
    struct cluster *cluster = cta->cluster;
    cta->remote = run_take(cluster->worker, 1, sizeof *cta->remote);
    cta->remote->use = run_take(cluster->worker, cluster->clock_capacity, sizeof *cta->remote->use);
}

void remote_reset(struct cta *cta) {
    memset(cta->remote->use, 0, cta->cluster->clock_capacity * sizeof *cta->remote->use);
    cta->remote->ended = vclock_make(cta->cluster);
}

void remote_free(struct remote_uses *remote) {
    if (remote != NULL) {
        free(remote->use);
        free(remote);
    }
}

void remote_note(const struct run *run, const struct cta *target, const struct epoch *epoch) {
    if (target != run->cta) {
        target->remote->use[epoch->clock_index] = (struct remote_use){epoch->insn, epoch->value, epoch->warp};
    }
}

void remote_warp_ends(struct run *run) {
    if (run->cluster->checks && run->cta->remote != NULL) {
        vclock_join(run->cluster, run->cta->remote->ended, run->warp->clock);
    }
}

void remote_cta_ends(struct run *run) {
    const struct remote_uses *remote = run->cta->remote;
    const uint32_t warps = run->launch->warps;
    for (uint32_t i = 0; remote != NULL && i < run->cluster->nclock_indices; i++) {
        const struct remote_use *use = &remote->use[i];
        if (use->insn == NULL || remote->ended->acquired[i] >= use->value ||
            remote->ended->causal[i] >= use->value) {
            continue;
        }
        sim_note(
            run->launch, SIM_ERROR, "cta-exited", &run->cluster->ctas[use->warp / warps],
            (int)(use->warp % warps), -1, use->insn, run->insn,
            "reaches into CTA rank %u of the cluster, and nothing makes that one wait for it before it ends",
            run->cta->rank);
    }
}
