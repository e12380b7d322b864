/* Spans of each launch's first cluster for the Chrome trace: a bounded list (path.h). */
#include <stdlib.h>

#include "timing.h"

#define MOST_SPANS (1u << 15)
#define SHARES     1024u

struct timeline {
    struct span *spans;
    size_t count, room;
    uint64_t lost;
    ticks l2, hbm; /* used up to the last window */
};

struct timeline *timeline_make(void) {
    return calloc(1, sizeof(struct timeline));
}

void timeline_free(struct timeline *timeline) {
    if (timeline != NULL) {
        free(timeline->spans);
        free(timeline);
    }
}

static void keep(struct timing *timing, struct span span) {
    struct timeline *timeline = timing->timeline;
    if (timeline->count == timeline->room && timeline->room < MOST_SPANS) {
        size_t room = timeline->room == 0 ? 1024 : 2 * timeline->room;
        struct span *grown = realloc(timeline->spans, room * sizeof *grown);
        if (grown != NULL) {
            timeline->spans = grown;
            timeline->room = room;
        }
    }
    if (timeline->count == timeline->room) {
        timeline->lost++;
        return;
    }
    span.launch = timing->launches;
    timeline->spans[timeline->count++] = span;
}

static bool shown(const struct timing *timing, const struct cta *cta) {
    const uint32_t *index = cta->cluster->index;
    return timing->timeline != NULL && index[0] == 0 && index[1] == 0 && index[2] == 0;
}

static struct span of_cta(const struct cta *cta, const char *name, ticks from, ticks to) {
    return (struct span){from, to, 0, name, cta->sm, 0, (int16_t)(cta - cta->cluster->ctas), -1};
}

void timeline_wait(struct timing *timing, const struct warp *warp, ticks wake) {
    static const char *const names[WAIT_KINDS] = {
        [WAIT_BAR] = "barrier",          [WAIT_MBARRIER] = "mbarrier",     [WAIT_CLUSTER] = "cluster barrier",
        [WAIT_CONVERGE] = "other lanes", [WAIT_WARP_SYNC] = "other lanes", [WAIT_ASYNC] = "own operations"};
    const char *name = names[warp->time->wait];
    if (shown(timing, warp->cta) && name != NULL && wake > warp->time->slept) {
        struct span span = of_cta(warp->cta, name, warp->time->slept, wake);
        span.warp = (int16_t)warp->index;
        keep(timing, span);
    }
}

void timeline_life(struct timing *timing, const struct warp *warp, ticks at) {
    if (shown(timing, warp->cta)) {
        struct span span = of_cta(warp->cta, "warp", warp->time->began, at);
        span.warp = (int16_t)warp->index;
        keep(timing, span);
    }
}

void timeline_operation(struct timing *timing, const struct cta *cta, const char *kind, ticks issued) {
    if (shown(timing, cta)) {
        keep(timing, of_cta(cta, kind, issued, timing->now));
    }
}

static void share(struct timing *timing, const char *name, ticks taken, ticks from, ticks to) {
    uint32_t part = (uint32_t)(taken * SHARES / (to - from));
    keep(timing, (struct span){from, to, 0, name, 0, part, -1, -1});
}

void timeline_window(struct timing *timing, ticks from, ticks to) {
    struct timeline *timeline = timing->timeline;
    if (timeline == NULL) {
        return;
    }
    ticks l2 = timing->l2_load.server.busy, hbm = timing->hbm.server.busy;
    /* A new launch's counters start at 0. */
    share(timing, "L2", l2 < timeline->l2 ? l2 : l2 - timeline->l2, from, to);
    share(timing, "HBM", hbm < timeline->hbm ? hbm : hbm - timeline->hbm, from, to);
    timeline->l2 = l2;
    timeline->hbm = hbm;
}

const struct span *timeline_span(const struct timing *timing, size_t index) {
    const struct timeline *timeline = timing->timeline;
    return timeline == NULL || index >= timeline->count ? NULL : &timeline->spans[index];
}

uint64_t timeline_lost(const struct timing *timing) {
    return timing->timeline == NULL ? 0 : timing->timeline->lost;
}
