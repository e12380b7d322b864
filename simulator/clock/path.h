/* The longest chain of a launch: what each warp's time so far consists of, followed back through what it waited
 * for.  A warp carries its chain; an operation takes its warp's along; who wakes a warp hands over his own. */
#ifndef SIM_CLOCK_PATH_H
#define SIM_CLOCK_PATH_H

#include "chip.h"
#include "sim.h"

struct path {
    ticks at; /* what the steps come to, on the clock */
    ticks step[SIM_STEPS];
};

struct timing;
struct island;
struct warp;
struct insn;

/* A warp starts: at the launch's begin, or behind the CTA that made room for it. */
void path_start(struct timing *timing, const struct island *island, struct warp *warp, ticks at);
/* It issues an instruction. */
void path_issue(struct timing *timing, struct warp *warp, const struct insn *insn);
/* What it waited for has happened at the running event; it goes on at `wake`. */
void path_wake(const struct timing *timing, struct warp *warp, ticks wake);
void path_end(struct timing *timing, struct island *island, struct warp *warp, ticks at);
/* An operation of this kind is done: it is what wakes warps now. */
void path_operation(struct timing *timing, const struct path *path, const char *kind);
/* It waited so long in a queue of the way to memory. */
void path_queued(struct path *path, enum sim_step step, ticks wait);

/* ---- spans of one cluster a launch (clock/timeline.c) ---- */

struct span {
    ticks from, to;
    uint64_t launch;
    const char *name;
    uint32_t sm, share; /* share: in 1/1024 */
    int16_t cta, warp;
};

struct timeline;
struct cta;

struct timeline *timeline_make(void);
void timeline_free(struct timeline *timeline);
/* A wait of a warp, its life, or an operation; only those of a launch's first cluster are kept. */
void timeline_wait(struct timing *timing, const struct warp *warp, ticks wake);
void timeline_life(struct timing *timing, const struct warp *warp, ticks at);
void timeline_operation(struct timing *timing, const struct cta *cta, const char *kind, ticks issued);
/* The end of a window, in which L2 and HBM were taken for so long. */
void timeline_window(struct timing *timing, ticks from, ticks to);
const struct span *timeline_span(const struct timing *timing, size_t index);
uint64_t timeline_lost(const struct timing *timing);

#endif
