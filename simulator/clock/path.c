/* The critical path of a launch (path.h). */
#include <stdlib.h>

#include "machine/findings.h"
#include "timing.h"

#define SPACED 6 /* samples begin a cycle apart (TICKS) */

static ticks earlier(ticks a, ticks b) {
    return a < b ? a : b;
}

/* The next moment lies anywhere in its interval, so that no loop of the kernel keeps time with the samples. */
static ticks next_sample(const struct path *path) {
    uint64_t state = path->nsamples;
    const ticks interval = path->began + (state << path->spacing);
    return interval + (next_random(&state) >> (64 - path->spacing));
}

static void add_cost(struct path *path, int step, int kind, ticks until) {
    if (until <= path->at) {
        return;
    }
    path->step[step] += until - path->at;
    path->at = until;
    while (next_sample(path) < until) {
        if (path->nsamples == PATH_SAMPLES) {
            for (uint32_t i = 0; i < PATH_SAMPLES / 2; i++) {
                uint64_t state = i;
                path->sample[i] = path->sample[2 * i + next_random(&state) % 2];
            }
            path->nsamples = PATH_SAMPLES / 2;
            path->spacing++;
        } else {
            path->sample[path->nsamples++] = path->place * SIM_COSTS + (uint32_t)kind;
        }
    }
}

static void add(struct path *path, int step, ticks until) {
    add_cost(path, step, step, until);
}

static uint32_t place_of(const struct warp *warp, const struct insn *insn) {
    return (uint32_t)(insn - warp->cta->cluster->launch->module->code);
}

void path_started(struct warp *warp, ticks until) {
    struct path *path = &warp->time->path;
    const struct insn *latest = warp->time->latest;
    const int step = SIM_STEP_WARPS + (int)warp->index;
    if (latest != NULL) {
        const uint32_t place = path->place;
        const bool loaded = latest->timing == FAMILY_MEMORY && latest->space != SP_SHARED;
        path->place = place_of(warp, latest);
        add_cost(path, loaded ? SIM_STEP_LOADS : step, loaded ? SIM_STEP_LOADS : SIM_COST_RESULT,
                 earlier(warp->time->operands, until));
        path->place = place;
    }
    add_cost(path, step, SIM_COST_TURN, until);
}

void path_start(struct timing *timing, const struct island *island, struct warp *warp, ticks at) {
    struct path *path = &warp->time->path;
    if (island->path.at != 0) {
        *path = island->path;
    } else {
        *path = (struct path){.began = timing->begin, .at = timing->begin, .spacing = SPACED};
        add(path, SIM_STEP_BEFORE, earlier(timing->before_end, at)); /* a dependent launch may start sooner */
    }
    add(path, SIM_STEP_START, at);
}

void path_issue(struct timing *timing, struct warp *warp, const struct insn *insn) {
    struct path *path = &warp->time->path;
    ticks at = timing->now;
    timing->cause = path;
    add_cost(path, SIM_STEP_WARPS + (int)warp->index, SIM_COST_NEXT, earlier(warp->time->next, at));
    path->place = place_of(warp, insn);
    if (insn->timing == FAMILY_GRID_WAIT) {
        add(path, SIM_STEP_BEFORE, at);
    }
    path_started(warp, at);
}

void path_wake(const struct timing *timing, struct warp *warp, ticks wake) {
    struct path *path = &warp->time->path;
    const uint32_t place = path->place;
    if (timing->cause != NULL && timing->cause != path) {
        *path = *timing->cause;
        path->place = place;
    }
    add(path, SIM_STEP_BARRIERS, wake);
}

void path_end(struct timing *timing, struct island *island, struct warp *warp, ticks at) {
    struct path *path = &warp->time->path;
    path_started(warp, at);
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

/* ---- the lines that cost most ---- */

struct group { /* samples with the same cost of one instruction, or of copies of it that unrolling made */
    uint32_t place, cost, times;
};

static bool same_line(const struct module *module, uint32_t a, uint32_t b) {
    const struct insn *one = &module->code[a], *other = &module->code[b];
    return a == b || (one->loc != 0 && other->loc != 0 && strcmp(one->name, other->name) == 0 &&
                      memcmp(&module->locs[one->loc], &module->locs[other->loc], sizeof *module->locs) == 0);
}

static int by_times(const void *a, const void *b) {
    const struct group *x = a, *y = b;
    return x->times != y->times ? (x->times < y->times) - (x->times > y->times)
                                : (x->place > y->place) - (x->place < y->place);
}

bool path_lines(const struct path *path, const struct module *module, struct sim_costly_line *lines) {
    struct group groups[PATH_SAMPLES];
    uint32_t count = 0, all = path->nsamples, listed = 0;
    for (uint32_t i = 0; i < path->nsamples; i++) {
        const uint32_t place = path->sample[i] / SIM_COSTS, cost = path->sample[i] % SIM_COSTS;
        uint32_t at = 0;
        all -= cost == SIM_STEP_BEFORE;                          /* the earlier launch has its own report */
        if (cost == SIM_STEP_BEFORE || cost == SIM_STEP_START) { /* of no line */
            continue;
        }
        while (at < count && (groups[at].cost != cost || !same_line(module, groups[at].place, place))) {
            at++;
        }
        groups[at].times = at < count ? groups[at].times + 1 : 1;
        groups[at].place = at < count && groups[at].place < place ? groups[at].place : place;
        groups[at].cost = cost;
        count += at == count;
    }
    qsort(groups, count, sizeof *groups, by_times);
    for (; listed < count && listed < SIM_COSTLY; listed++) {
        const struct insn *insn = &module->code[groups[listed].place];
        char *ptx = text_of(module, insn), *source = source_of(module, insn);
        if (ptx == NULL || source == NULL) {
            free(ptx);
            free(source);
            return false;
        }
        lines[listed] = (struct sim_costly_line){.share = (double)groups[listed].times / all,
                                                 .ptx_line = insn->line,
                                                 .ptx = ptx,
                                                 .source = source,
                                                 .cost = (int)groups[listed].cost};
    }
    return true;
}

void path_free_lines(struct sim_costly_line *lines) {
    for (int i = 0; i < SIM_COSTLY; i++) {
        free((void *)(uintptr_t)lines[i].ptx);
        free((void *)(uintptr_t)lines[i].source);
    }
}
