/* Whether a CTA of the cluster is still there when another one reaches into it (CUDA programming guide,
 * distributed shared memory: it has to exist until the access is complete).
 *
 * Both sides are checked, each when it happens, so that one of them speaks up in every schedule: an access to a
 * CTA that has ended (machine/address.c), and the end of a CTA that does not come after every earlier access. */
#include <stdio.h>
#include <stdlib.h>

#include "hazard/hazard.h"

/* The last use of a CTA by others at each clock index: who has reached its value knows that it is over. */
struct remote_uses {
    struct remote_use {
        const struct insn *insn; /* NULL: none */
        uint32_t value, warp;
    } *use;
    struct clockv *ended; /* what the CTA's threads had seen at their ends */
};

void remote_make(struct cta *cta) {
    struct cluster *cluster = cta->cluster;
    cta->remote = run_take(cluster->worker, 1, sizeof *cta->remote);
    cta->remote->use = run_take(cluster->worker, cluster->clock_capacity, sizeof *cta->remote->use);
}

void remote_reset(struct cta *cta) {
    memset(cta->remote->use, 0, cta->cluster->clock_capacity * sizeof *cta->remote->use);
    cta->remote->ended = clock_make(cta->cluster);
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
    if (run->cta->remote != NULL) {
        clock_join(run->cluster, run->cta->remote->ended, run->warp->clock);
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
        char message[200];
        (void)snprintf(
            message, sizeof message,
            "reaches into CTA rank %u of the cluster, and nothing makes that one wait for it before it "
            "ends",
            run->cta->rank);
        sim_note(run->launch, SIM_ERROR, "cta-exited", &run->cluster->ctas[use->warp / warps],
                 (int)(use->warp % warps), -1, use->insn, run->insn, message);
    }
}
