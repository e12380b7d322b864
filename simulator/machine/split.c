/* Splits of a warp (lanes that share a pc), its operations in flight, and unstarted clusters of the grid. */
#include "machine.h"

static struct split *new_split(struct warp *warp) {
    return &warp->split_store[__builtin_ctz(~warp->split_used)];
}

struct split *add_split(struct run *run, uint32_t mask, uint32_t pc) {
    struct warp *warp = run->warp;
    struct split *split = new_split(warp); /* never more splits than lanes */
    warp->split_used |= 1u << (split - warp->split_store);
    struct frame *stack = split->stack;
    *split = *run->split;
    split->stack = stack;
    for (uint32_t i = 0; i < split->depth; i++) {
        stack[i] = run->split->stack[i];
    }
    split->mask = mask;
    split->pc = pc;
    split->steps = 0;
    split->worked = run->split->worked = false;
    split->resumed = false;
    split->wait.kind = WAIT_NONE;
    warp->splits[warp->nsplits++] = split;
    return split;
}

void drop_split(struct warp *warp, uint32_t at) {
    warp->split_used &= ~(1u << (warp->splits[at] - warp->split_store));
    warp->splits[at] = warp->splits[--warp->nsplits];
}

enum next wait_for(struct run *run, struct wait wait) {
    run->split->wait = wait;
    return BLOCK;
}

struct in_flight *pending_new(struct run *run) {
    struct warp *warp = run->warp;
    RUN_GROW(run->worker, warp->in_flight, warp->npending, warp->pending_room);
    return &warp->in_flight[warp->npending++];
}

bool claim_cluster(struct launch *launch, bool cancel, uint64_t *number) {
    uint32_t ctas = launch->cluster[0] * launch->cluster[1] * launch->cluster[2];
    (void)pthread_mutex_lock(&launch->sim->lock);
    uint64_t next = atomic_load(&launch->next_cluster), held = launch->sim->options.sms / ctas;
    bool is_one = next < launch->ncluster && (!cancel || launch->ncluster > held);
    if (is_one && cancel) {
        *number = --launch->ncluster;
    } else if (is_one) {
        *number = next;
        atomic_store(&launch->next_cluster, next + 1);
    }
    (void)pthread_mutex_unlock(&launch->sim->lock);
    return is_one;
}
