/* The critical path of a launch (path.h). */
#include "timing.h"

static ticks earlier(ticks a, ticks b) {
    return a < b ? a : b;
}

static void add(struct path *path, int step, ticks until) {
    if (until > path->at) {
        path->step[step] += until - path->at;
        path->at = until;
    }
}

void path_start(struct timing *timing, const struct island *island, struct warp *warp, ticks at) {
    struct path *path = &warp->time->path;
    if (island->path.at != 0) {
        *path = island->path;
    } else {
        *path = (struct path){.at = timing->begin};
        add(path, SIM_STEP_BEFORE, earlier(timing->before_end, at)); /* a dependent launch may start sooner */
    }
    add(path, SIM_STEP_START, at);
    warp->time->loads_until = 0;
}

void path_issue(struct timing *timing, struct warp *warp, const struct insn *insn) {
    struct path *path = &warp->time->path;
    ticks at = timing->now;
    timing->cause = path;
    add(path, SIM_STEP_LOADS, earlier(warp->time->loads_until, at));
    add(path, insn->timing == FAMILY_GRID_WAIT ? SIM_STEP_BEFORE : SIM_STEP_WARPS + (int)warp->index, at);
}

void path_wake(const struct timing *timing, struct warp *warp, ticks wake) {
    struct path *path = &warp->time->path;
    if (timing->cause != NULL && timing->cause != path) {
        *path = *timing->cause;
    }
    add(path, SIM_STEP_BARRIERS, wake);
}

void path_end(struct timing *timing, struct island *island, struct warp *warp, ticks at) {
    struct path *path = &warp->time->path;
    add(path, SIM_STEP_WARPS + (int)warp->index, at);
    if (path->at >= island->path.at) {
        island->path = *path;
    }
    if (path->at >= timing->running.path.at) {
        timing->running.path = *path;
    }
}

/* Operations are named in async/ and isa/. */
static int step_of(const char *kind) {
    static const struct {
        const char *begin;
        int step;
    } kinds[] = {{"tcgen05.ld", SIM_STEP_TMEM},  {"tcgen05.st", SIM_STEP_TMEM}, {"tcgen05", SIM_STEP_TENSOR},
                 {"wgmma", SIM_STEP_TENSOR},     {"st.async", SIM_STEP_REMOTE}, {"bulk load", SIM_STEP_COPIES},
                 {"bulk store", SIM_STEP_STORES}};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (strncmp(kind, kinds[i].begin, strlen(kinds[i].begin)) == 0) {
            return kinds[i].step;
        }
    }
    return SIM_STEP_COPIES;
}

void path_operation(struct timing *timing, const struct path *path, const char *kind) {
    timing->operation = *path;
    add(&timing->operation, step_of(kind), timing->now);
    timing->cause = &timing->operation;
}

void path_queued(struct path *path, enum sim_step step, ticks wait) {
    add(path, (int)step, path->at + wait);
}
