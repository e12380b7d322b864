/* The critical path of a launch.  Each warp carries the steps that its time so far consists of; an operation
 * takes a copy of its warp's path; whatever wakes a warp replaces the warp's path with its own. */
#ifndef SIM_CLOCK_PATH_H
#define SIM_CLOCK_PATH_H

#include "chip.h"
#include "sim.h"

#define PATH_SAMPLES 512

struct path {
    ticks began, at; /* at: the end of the last step */
    ticks step[SIM_STEPS];
    uint32_t place; /* of the instruction that took the last step, in the module's code */
    /* What took the time at evenly spread moments since `began`: place * SIM_COSTS + kind.  Twice as far apart,
     * by a power of two of ticks, whenever there are too many. */
    uint32_t spacing, nsamples, sample[PATH_SAMPLES];
};

struct timing;
struct island;
struct warp;
struct insn;
struct module;

/* The warp starts, at the launch's begin or after the CTA that made room for it. */
void path_start(struct timing *timing, const struct island *island, struct warp *warp, ticks at);
/* The warp issues an instruction. */
void path_issue(struct timing *timing, struct warp *warp, const struct insn *insn);
/* The instruction has waited until then: for the last of its operands, then for its turn.  Arithmetic issues
 * ahead of that. */
void path_started(struct warp *warp, ticks until);
/* The running event ends the warp's wait; the warp continues at `wake`. */
void path_wake(const struct timing *timing, struct warp *warp, ticks wake);
void path_end(struct timing *timing, struct island *island, struct warp *warp, ticks at);
/* An operation is done, and wakes warps. */
void path_operation(struct timing *timing, const struct path *path, const char *kind);
/* The path includes a wait in a queue of the memory path. */
void path_queued(struct path *path, enum sim_step step, ticks wait);
/* Writes the lines that took most of the path; path_free_lines frees their texts.  False: no memory. */
bool path_lines(const struct path *path, const struct module *module, struct sim_costly_line *lines);
void path_free_lines(struct sim_costly_line *lines);

/* ---- the timeline of each launch's first cluster (timeline.c) ---- */

struct span {
    ticks from, to;
    uint64_t launch;
    const char *name;
    uint32_t sm, share; /* share: of a resource, in 1/1024 */
    int16_t cta, warp;
};

struct timeline;
struct cta;

struct timeline *timeline_make(void);
void timeline_free(struct timeline *timeline);
/* Records a wait or the life of a warp, or an operation, if it belongs to the launch's first cluster. */
void timeline_wait(struct timing *timing, const struct warp *warp, ticks wake);
void timeline_life(struct timing *timing, const struct warp *warp, ticks at);
void timeline_operation(struct timing *timing, const struct cta *cta, const char *kind, ticks issued);
/* Records how much of L2 and HBM was used in a window. */
void timeline_window(struct timing *timing, ticks from, ticks to);
const struct span *timeline_span(const struct timing *timing, size_t index);
uint64_t timeline_lost(const struct timing *timing);

#endif
