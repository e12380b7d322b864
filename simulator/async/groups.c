/* Groups of asynchronous operations (commit_group, wait_group). A group belongs to the warp, whichever lanes
 * issue. */
#include "groups.h"

#include <stdlib.h>

static struct family *family_of(const struct warp *warp, enum group_family family) {
    return &warp->groups->family[family];
}

struct groups *groups_make(struct worker *worker) {
    return run_take(worker, 1, sizeof(struct groups));
}

void groups_free(struct groups *groups) {
    free(groups);
}

void groups_reset(struct warp *warp) {
    memset(warp->groups, 0, sizeof *warp->groups);
    for (int i = 0; i < GROUP_FAMILIES; i++) {
        warp->groups->family[i].open = warp->groups->family[i].oldest_unread = warp->groups->family[i].oldest =
            1;
    }
}

uint32_t group_current(const struct warp *warp, enum group_family family) {
    return family_of(warp, family)->open;
}

struct epoch group_epoch(struct run *run, enum group_family family, bool read) {
    struct family *f = family_of(run->warp, family);
    uint32_t *clock_index = read ? &f->read_clock_index : &f->clock_index;
    if (*clock_index == 0) {
        *clock_index = new_clock_index(run);
    }
    return (struct epoch){*clock_index, f->open, run->warp->clock, run->warp->number, run->insn};
}

void group_add(struct run *run, enum group_family family) {
    struct family *f = family_of(run->warp, family);
    f->unread[f->open % GROUPS_AHEAD]++;
    f->unfinished[f->open % GROUPS_AHEAD]++;
}

void group_finish(struct warp *warp, enum group_family family, uint32_t group) {
    struct family *f = family_of(warp, family);
    f->unfinished[group % GROUPS_AHEAD]--; /* wgmma has no wait for reads alone */
}

void group_advance(struct async_op *op, enum group_family family, uint32_t group, enum async_stage stage) {
    struct family *f = family_of(op->warp, family);
    if (stage == ASYNC_READ) {
        f->unread[group % GROUPS_AHEAD]--;
    } else {
        f->unfinished[group % GROUPS_AHEAD]--;
    }
}

bool groups_done(const struct warp *warp, enum group_family family, uint32_t upto, bool read) {
    struct family *f = family_of(warp, family);
    uint32_t *oldest = read ? &f->oldest_unread : &f->oldest;
    const uint32_t *left = read ? f->unread : f->unfinished;
    while (*oldest <= upto && left[*oldest % GROUPS_AHEAD] == 0) {
        (*oldest)++;
    }
    return *oldest > upto;
}

enum next groups_commit(struct run *run, enum group_family family) {
    struct family *f = family_of(run->warp, family);
    uint32_t before = f->open >= GROUPS_AHEAD ? f->open - GROUPS_AHEAD + 1 : 0;
    if (before > 0 && !groups_done(run->warp, family, before, false)) {
        return sim_report(run, SIM_INCOMPLETE, "groups", -1, "more than %d groups in flight", GROUPS_AHEAD);
    }
    f->open++;
    return NEXT;
}

static bool wait_over(struct warp *warp, const struct split *split) {
    return groups_done(warp, (enum group_family)(split->wait.a >> 1), split->wait.b, split->wait.a & 1);
}

/* Notes when the running warp waits for its cp.async groups up to this one, for checks between its lanes. */
static void note_copies(const struct run *run, enum group_family family, uint32_t upto) {
    struct warp *warp = run->warp;
    const uint32_t clock_index = family_of(warp, family)->clock_index,
                   known = warp->clock->acquired[clock_index];
    const uint32_t kept = upto - known < COPIES_SEEN ? upto - known : COPIES_SEEN;
    for (uint32_t group = upto - kept + 1; family == GROUP_CP_ASYNC && group <= upto; group++) {
        warp->copies_index = clock_index;
        warp->copies_seen[group % COPIES_SEEN] = warp->clock->acquired[warp->number];
    }
}

enum next groups_wait(struct run *run, enum group_family family, uint32_t pending, bool read) {
    struct family *f = family_of(run->warp, family);
    if (pending == UINT32_MAX) { /* wait_all: committed or not */
        f->open++;
        pending = 0;
    }
    uint32_t upto = f->open - 1 > pending ? f->open - 1 - pending : 0;
    if (!groups_done(run->warp, family, upto, read)) {
        return wait_for(run, (struct wait){.kind = WAIT_ASYNC,
                                           .a = (uint32_t)family << 1 | read,
                                           .b = upto,
                                           .ready = wait_over,
                                           .what = "its own asynchronous operations"});
    }
    if (run->cluster->checks && family != GROUP_WGMMA) {
        uint32_t *acquired = run->warp->clock->acquired;
        if (f->read_clock_index != 0 && acquired[f->read_clock_index] < upto) {
            acquired[f->read_clock_index] = upto;
        }
        if (!read && f->clock_index != 0 && acquired[f->clock_index] < upto) {
            note_copies(run, family, upto);
            acquired[f->clock_index] = upto;
        }
    }
    f->waited_read = f->waited_read > upto ? f->waited_read : upto;
    return NEXT;
}

/* A bulk store may still read shared memory when its CTA ends, and PTX does not keep that memory alive. Only a
 * review, since CUTLASS's epilogues without a source tensor end that way. */
void groups_at_end(struct run *run) {
    const struct family *f = family_of(run->warp, GROUP_BULK);
    if (f->used && f->waited_read < f->last_used) {
        (void)sim_report_pair(run, SIM_REVIEW, "unfinished-store", -1, f->last_insn,
                              "a warp ends without having waited for its bulk stores to read shared memory "
                              "(cp.async.bulk.wait_group.read 0)");
    }
}
