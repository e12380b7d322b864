/* Runs a cluster without simulated time: which warp runs next, and what happens when none can. */
#include <sched.h>
#include <stdio.h>

#include "async/async.h"
#include "interp/interp.h"
#include "isa/tcgen05/tcgen05_interp.h"
#include "isa/warp/warp.h"
#include "machine/schedule.h"

#define QUANTUM 4096 /* instructions a warp executes per turn */
/* Rounds of nothing but polling, with no operation in flight, that count as a deadlock; more if other workers
 * may still write what is polled, since their rounds are long. */
#define IDLE_ROUNDS        20000
#define IDLE_ROUNDS_SHARED (100 * IDLE_ROUNDS)
#define COMPARED_FROM      (IDLE_ROUNDS / 2) /* rounds of polling after which warps' states are compared */
#define SURELY_CHANGES     1024              /* comparisons in which an endless poll has come back to a state */
#define COMPARED_EVERY     64                /* rounds between later comparisons, which are slow */
#define MOST_CHANGES       32768 /* later comparisons after which a poll is not waited for any longer */
#define TABLE_BYTES        4096
#define RANDOM_STEPS       4

static void describe(char *to, size_t room, const struct warp *warp, const struct split *split) {
    const struct module *module = warp->cta->cluster->launch->module;
    const struct insn *insn = &module->code[split->pc];
    int used =
        snprintf(to, room, "\n  CTA %u,%u,%u warp %u lanes %08x at PTX line %u (%s): ", warp->cta->index[0],
                 warp->cta->index[1], warp->cta->index[2], warp->index, split->mask, insn->line, insn->name);
    if (used < 0 || (size_t)used >= room) {
        return;
    }
    to += used;
    room -= (size_t)used;
    const struct wait *wait = &split->wait;
    const struct named_barrier *bar = wait->object;
    switch (wait->kind) {
    case WAIT_MBARRIER:
        mbarrier_describe(to, room, warp, split);
        break;
    case WAIT_BAR:
        (void)snprintf(to, room, "named barrier %u, %u of %u threads arrived", wait->a, bar->arrived,
                       bar->expected == 0 ? warp->cta->live_threads : bar->expected);
        break;
    case WAIT_NONE:
        (void)snprintf(to, room, "polls");
        break;
    default:
        (void)snprintf(to, room, "waits for %s", wait->what);
    }
}

void report_deadlock(struct cluster *cluster) {
    char table[TABLE_BYTES] = "no warp can run and nothing is in flight:";
    size_t used = strlen(table);
    const struct warp *first = NULL;
    bool divergent = false;
    for (uint32_t i = 0; i < cluster->nctas; i++) {
        for (uint32_t j = 0; j < cluster->ctas[i].nwarps; j++) {
            const struct warp *warp = &cluster->ctas[i].warps[j];
            for (uint32_t k = 0; k < warp->nsplits; k++) {
                bool aligned = warp->splits[k]->wait.kind == WAIT_CONVERGE;
                divergent |= aligned;
                first =
                    first == NULL || (aligned && first->splits[0]->wait.kind != WAIT_CONVERGE) ? warp : first;
                if (warp->splits[k]->wait.kind == WAIT_ASYNC && warp->splits[k]->wait.hung != NULL) {
                    warp->splits[k]->wait.hung(warp, warp->splits[k]);
                }
                describe(table + used, sizeof table - used, warp, warp->splits[k]);
                used += strlen(table + used);
            }
        }
    }
    if (first != NULL) {
        sim_note_at(cluster->launch, SIM_ERROR, divergent ? "divergent-aligned" : "deadlock", first->cta,
                    (int)first->index, -1, -1, &cluster->launch->module->code[first->splits[0]->pc], NULL,
                    table);
    }
    cluster->failed = true;
}

bool cluster_live(const struct cluster *cluster) {
    for (uint32_t i = 0; i < cluster->nctas; i++) {
        if (cluster->ctas[i].live_threads > 0) {
            return true;
        }
    }
    return false;
}

static bool run_round(struct cluster *cluster, bool *polling) {
    struct launch *launch = cluster->launch;
    bool random = launch->mode == SIM_RANDOM, progress = false;
    bool turns = random && (launch->schedule == NULL || launch->schedule->turns);
    uint32_t total = cluster->nctas * launch->warps;
    uint32_t first = turns ? (uint32_t)(next_random(&cluster->random) % total) : 0;
    for (uint32_t i = 0; i < total && !cluster->failed && !cluster->gives_way; i++) {
        uint32_t number = (first + i) % total;
        struct warp *warp = &cluster->ctas[number / launch->warps].warps[number % launch->warps];
        if (warp->nsplits == 0) {
            continue;
        }
        uint32_t quantum = turns ? 1 + (uint32_t)(next_random(&cluster->random) % 200) : QUANTUM;
        bool ran = run_warp(warp, cluster->worker, quantum);
        cluster->last_ran = ran ? warp : cluster->last_ran;
        progress |= ran;
        *polling |= warp->nsplits > 0 && warp->fruitless;
        for (int step = 0; random && step < RANDOM_STEPS && next_random(&cluster->random) % 4 == 0; step++) {
            progress |= async_progress(cluster);
        }
    }
    return progress;
}

void cluster_finish(struct cluster *cluster) {
    while (!cluster->failed && async_progress(cluster)) { /* complete what is still in flight */
    }
    if (!cluster->failed) {
        for (uint32_t i = 0; i < cluster->nctas; i++) {
            mbarriers_at_end(cluster, &cluster->ctas[i]);
            tensor_at_end(cluster, &cluster->ctas[i]);
            registers_at_end(cluster, &cluster->ctas[i]);
        }
    }
    async_clear(cluster);
}

/* Counts a round of nothing but polling. A poll that may give up by itself keeps the cluster, and those that
 * poll for what it writes then, from a deadlock. */
static void count_idle(struct cluster *cluster) {
    cluster->compared = cluster->idle == 0 ? 0 : cluster->compared;
    cluster->idle++;
    if (cluster->idle <= COMPARED_FROM) {
        return;
    }
    const bool changes = cluster->compared > SURELY_CHANGES;
    if (changes && cluster->idle < COMPARED_FROM + COMPARED_EVERY) {
        return;
    }
    if (cluster->changes < MOST_CHANGES && polls_change(cluster)) {
        cluster->idle = COMPARED_FROM;
        if (changes) {
            cluster->changes++;
            cluster->others = atomic_fetch_add(&cluster->launch->rounds, 1) + 1;
        }
    }
}

enum cluster_state run_cluster(struct cluster *cluster) {
    for (;;) {
        bool polling = false;
        cluster->failed |= launch_interrupted(cluster->launch);
        if (cluster->failed || !cluster_live(cluster) || atomic_load(&cluster->launch->stop)) {
            cluster_finish(cluster);
            return CLUSTER_DONE;
        }
        const bool ran = run_round(cluster, &polling);
        worker_progress(cluster->worker, 0);
        if (ran || cluster->failed) {
            cluster->idle = 0;
            cluster->changes = 0;
            (void)atomic_fetch_add(&cluster->launch->rounds, 1);
        }
        if (cluster->gives_way && !cluster->failed) {
            cluster->gives_way = false;
            return CLUSTER_GIVES_WAY;
        }
        if (ran || cluster->failed) {
            continue;
        }
        if (async_progress(cluster)) {
            continue;
        }
        const uint64_t rounds = atomic_load(&cluster->launch->rounds);
        if (rounds != cluster->others) { /* another worker's cluster made progress */
            cluster->others = rounds;
            cluster->idle = 0;
        }
        const uint32_t most = atomic_load(&cluster->launch->working) > 1 ? IDLE_ROUNDS_SHARED : IDLE_ROUNDS;
        if (polling) {
            count_idle(cluster);
            if (cluster->idle < most) { /* another cluster may write what is polled */
                return CLUSTER_IDLE;
            }
        }
        report_deadlock(cluster);
    }
}
