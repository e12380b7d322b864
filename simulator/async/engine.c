/* The list of operations in flight, and the order in which each mode performs them. */
#include <stdlib.h>

#include "async.h"
#include "clock/timing.h"
#include "machine/schedule.h"

struct async_op *async_new(struct run *run, const struct async_kind *kind, int lane, size_t payload_bytes,
                           size_t data_bytes) {
    struct cluster *cluster = run->cluster;
    size_t bytes = (sizeof(struct async_op) + payload_bytes + data_bytes + 64) / 16 * 16;
    bool timed = run->launch->timing != NULL;
    struct async_op *op = run_take(run->worker, 1, bytes + (timed ? sizeof(struct path) : 0));
    op->path = timed ? (struct path *)(void *)((uint8_t *)op + bytes) : NULL;
    op->next = cluster->unissued;
    if (op->next != NULL) {
        op->next->previous = op;
    }
    cluster->unissued = op;
    op->kind = kind;
    op->cluster = cluster;
    op->cta = run->cta;
    op->warp = run->warp;
    op->lane = lane;
    op->insn = run->insn;
    op->payload = op + 1;
    op->data = (uint8_t *)(((uintptr_t)(op + 1) + payload_bytes + 15) / 16 * 16);
    return op;
}

void async_start(struct run *run, const struct async_kind *kind, int lane, const void *payload, size_t bytes,
                 size_t data_bytes, const void *queue) {
    struct async_op *op = async_new(run, kind, lane, bytes, data_bytes);
    memcpy(op->payload, payload, bytes);
    op->queue = queue;
    async_issue(run, op);
}

static void unlink_unissued(struct async_op *op) {
    *(op->previous != NULL ? &op->previous->next : &op->cluster->unissued) = op->next;
    if (op->next != NULL) {
        op->next->previous = op->previous;
    }
    op->next = op->previous = NULL;
}

void async_drop(struct async_op *op) {
    unlink_unissued(op);
    free(op);
}

static void unlink_op(struct async_op *op) {
    struct cluster *cluster = op->cluster;
    *(op->previous != NULL ? &op->previous->next : &cluster->ops_first) = op->next;
    *(op->next != NULL ? &op->next->previous : &cluster->ops_last) = op->previous;
    cluster->nops--;
}

/* Performs the operation's next step and frees the operation after the last one. */
static void step(struct async_op *op) {
    const struct async_kind *kind = op->kind;
    void (*const actions[])(struct async_op *) = {kind->read, kind->write, kind->complete};
    void (*action)(struct async_op *) = actions[op->stage];
    op->stage++;
    if (action != NULL) {
        action(op);
    }
    op->cluster->events++;
    if (op->stage == ASYNC_WRITTEN && op->scheduled != 0) {
        schedule_written(op->cluster, op->scheduled);
    }
    if (op->stage == ASYNC_DONE) {
        unlink_op(op);
        free(op);
    }
}

static bool can_move(const struct async_op *op) {
    for (const struct async_op *other = op->previous; op->queue != NULL && other != NULL;
         other = other->previous) {
        if (other->queue == op->queue) {
            return false;
        }
    }
    return op->kind->ready == NULL || op->kind->ready(op);
}

static void run_to_end(struct async_op *op) {
    for (int left = ASYNC_DONE - (int)op->stage; left > 0; left--) {
        step(op);
    }
}

/* Completes every operation that can proceed: all of them, or only those that the schedule does not delay. */
static bool drain(struct cluster *cluster, bool all) {
    bool any = false;
    for (struct async_op *op = cluster->ops_first; op != NULL;) {
        struct async_op *next = op->next;
        if ((all || op->prompt) && can_move(op)) {
            run_to_end(op);
            any = true;
            next = cluster->ops_first; /* a later operation of its queue may proceed now */
        }
        op = next;
    }
    return any;
}

/* ---- with simulated time ---- */

static void issue_timed(struct run *run, struct async_op *op) {
    op->issued = run->launch->timing->now;
    *op->path = run->warp->time->path;
    if (op->kind->timed != NULL) {
        op->kind->timed(run, op);
    } else {
        event_add_stage(run->launch->timing, op, op->cta, run->launch->timing->now, ASYNC_DONE);
    }
}

void async_due(struct timing *timing, struct async_op *op, uint8_t stage) {
    struct cluster *cluster = op->cluster;
    const void *queue = op->queue;
    op->due = stage > op->due ? stage : op->due;
    if (!can_move(op)) {
        return; /* the earlier operation of its queue will call again when it ends */
    }
    bool ends = op->due == ASYNC_DONE;
    for (int left = (int)op->due - (int)op->stage; left > 0; left--) {
        step(op);
    }
    if (!ends || queue == NULL) {
        return;
    }
    for (struct async_op *next = cluster->ops_first; next != NULL; next = next->next) {
        if (next->queue == queue) {
            if (next->due > next->stage) {
                event_add_stage(timing, next, next->cta, timing->now, next->due);
            }
            return;
        }
    }
}

void async_issue(struct run *run, struct async_op *op) {
    struct cluster *cluster = run->cluster;
    unlink_unissued(op);
    op->number = cluster->op_number++;
    op->previous = cluster->ops_last;
    *(cluster->ops_last != NULL ? &cluster->ops_last->next : &cluster->ops_first) = op;
    cluster->ops_last = op;
    cluster->nops++;
    run->worker->counters.async_operations++;
    struct schedule *schedule = run->launch->schedule;
    if (schedule != NULL) {
        op->scheduled = schedule_issued(schedule, run, op->kind->name, op->lane, &op->prompt);
    }
    if (run->launch->mode == SIM_POISON && op->kind->poison != NULL && !op->prompt) {
        op->kind->poison(op);
    }
    if (run->launch->timing != NULL) {
        issue_timed(run, op);
    } else if (run->launch->mode == SIM_EAGER || schedule != NULL) {
        (void)drain(cluster, run->launch->mode == SIM_EAGER);
    }
}

bool async_progress(struct cluster *cluster) {
    enum sim_mode mode = cluster->launch->mode;
    if (cluster->nops == 0) {
        return false;
    }
    if (mode == SIM_EAGER) {
        return drain(cluster, true);
    }
    if (cluster->launch->schedule != NULL && drain(cluster, false)) {
        return true;
    }
    if (mode == SIM_RANDOM) {
        uint32_t skip = (uint32_t)(next_random(&cluster->random) % cluster->nops);
        struct async_op *op = cluster->ops_first;
        while (skip-- > 0) {
            op = op->next;
        }
        if (can_move(op)) {
            step(op);
            return true;
        }
    }
    bool reverse = mode == SIM_REVERSE;
    for (struct async_op *op = reverse ? cluster->ops_last : cluster->ops_first; op != NULL;
         op = reverse ? op->previous : op->next) {
        if (can_move(op)) {
            run_to_end(op);
            return true;
        }
    }
    return false;
}

void async_clear(struct cluster *cluster) {
    while (cluster->unissued != NULL) {
        async_drop(cluster->unissued);
    }
    while (cluster->ops_first != NULL) {
        struct async_op *op = cluster->ops_first;
        unlink_op(op);
        free(op);
    }
}
