/* Searches for the smallest set of delays that still shows a finding: delta debugging (Zeller and Hildebrandt
 * 2002) over the asynchronous operations that a mode delays, first by cluster, then by instruction, then one by
 * one. */
#include <stdlib.h>

#include "interp.h"
#include "machine/findings.h"
#include "shrink.h"
#include "trial.h"

#define MOST_RUNS         1000
#define MOST_OPERATIONS   (1u << 20)
#define MOST_INSTRUCTIONS ((uint64_t)1 << 31)

/* Delays that are kept or dropped together: a range of search->item. */
struct group {
    uint32_t first, count;
};

struct search {
    struct trials trials;
    struct sim_shrink_options options;
    struct scheduled
        *item;     /* operations that may be delayed, sorted by cluster, instruction and order of issue */
    uint32_t left; /* size of the smallest set so far */
    bool turns;    /* the smallest set so far contains the random order of warps */
    bool chosen;   /* `wanted` is set; a run ends as soon as it is found */
    bool seen;
    struct sim_finding wanted;
    unsigned runs;
    uint64_t instructions;
    const char *stopped; /* which bound ended the search; "": none */
    bool undelayed;      /* the launch has more operations than the search may delay */
    bool failed;         /* the simulator's status and message say why */
};

static const char no_memory[] = "out of memory", too_many[] = "the bound on operations";

static bool fail(struct search *search, int status, const char *why) {
    search->failed = true;
    (void)sim_fail(search->trials.sim, status, why);
    return false;
}

static bool same_finding(const struct sim_finding *a, const struct sim_finding *b) {
    return strcmp(a->kind, b->kind) == 0 && strcmp(a->kernel, b->kernel) == 0 &&
           (a->source[0] != '\0' ? strcmp(a->source, b->source) == 0 : a->ptx_line == b->ptx_line);
}

/* ---- a run ---- */

static bool found(void *context, const struct sim_finding *finding) {
    struct search *search = context;
    search->seen |= search->chosen && same_finding(&search->wanted, finding);
    return search->seen;
}

static bool run(struct search *search) {
    search->seen = false;
    int status = trials_run(&search->trials);
    if (status != SIM_OK && status != SIM_RUN_ERROR) {
        return fail(search, status, status == SIM_NO_MEMORY ? no_memory : sim_message(search->trials.last));
    }
    if (sim_interrupted(search->trials.sim) != 0) {
        return fail(search, SIM_RUN_ERROR, "the search was interrupted");
    }
    search->runs++;
    search->instructions += search->trials.last->counters.instructions;
    if (search->options.shows != NULL) {
        search->seen = search->options.shows(search->options.context) != 0;
    }
    if (search->options.progress != NULL) {
        search->options.progress(search->options.context, search->runs,
                                 search->item == NULL ? search->trials.schedule.count : search->left);
    }
    return true;
}

/* True if a run with all operations delayed (`all`), or none, shows the finding. */
static bool shows_with(struct search *search, bool all, bool turns) {
    schedule_clear(&search->trials.schedule);
    search->trials.schedule.all = all;
    search->trials.schedule.turns = turns;
    return run(search) && search->seen;
}

static bool shows(struct search *search, const struct group *groups, size_t count) {
    if (search->failed || search->stopped[0] != '\0') {
        return false;
    }
    if (search->runs >= search->options.most_runs) {
        search->stopped = "the bound on runs";
    } else if (search->instructions >= search->options.most_instructions) {
        search->stopped = "the bound on instructions";
    }
    schedule_clear(&search->trials.schedule);
    search->trials.schedule.turns = search->turns;
    uint32_t delays = 0;
    for (size_t i = 0; i < count; i++) {
        for (uint32_t j = 0; j < groups[i].count; j++, delays++) {
            if (!schedule_delay(&search->trials.schedule, &search->item[groups[i].first + j].issue)) {
                return fail(search, SIM_NO_MEMORY, no_memory);
            }
        }
    }
    bool shown = search->stopped[0] == '\0' && run(search) && search->seen;
    search->left = shown && delays < search->left ? delays : search->left;
    return shown;
}

/* ---- reduction ---- */

/* Drops every group that the finding does not need and returns how many remain. `rest`: scratch space for
 * `count` groups. */
static size_t leave_out(struct search *search, struct group *groups, size_t count, struct group *rest) {
    size_t parts = 2;
    while (count >= 2 && search->stopped[0] == '\0' && !search->failed) {
        bool smaller = false;
        for (size_t i = 0; i < parts && !smaller; i++) { /* try one part alone */
            size_t low = count * i / parts, high = count * (i + 1) / parts;
            if (shows(search, groups + low, high - low)) {
                memmove(groups, groups + low, (high - low) * sizeof *groups);
                count = high - low;
                parts = 2;
                smaller = true;
            }
        }
        for (size_t i = 0; i < parts && parts > 2 && !smaller; i++) { /* try all parts but one */
            size_t low = count * i / parts, high = count * (i + 1) / parts;
            memcpy(rest, groups, low * sizeof *groups);
            memcpy(rest + low, groups + high, (count - high) * sizeof *groups);
            if (shows(search, rest, count - (high - low))) {
                count -= high - low;
                memcpy(groups, rest, count * sizeof *groups);
                parts--;
                smaller = true;
            }
        }
        if (!smaller && parts >= count) {
            break;
        }
        if (!smaller) {
            parts = 2 * parts < count ? 2 * parts : count;
        }
        parts = parts < count ? parts : count;
        parts = parts < 2 ? 2 : parts;
    }
    return count;
}

enum level { OF_CLUSTERS, OF_INSTRUCTIONS, OF_OPERATIONS, LEVELS };

static bool in_group(const struct scheduled *a, const struct scheduled *b, enum level level) {
    return level != OF_OPERATIONS && a->issue.cluster == b->issue.cluster &&
           (level == OF_CLUSTERS || a->issue.pc == b->issue.pc);
}

static int by_place(const void *a, const void *b) {
    const struct scheduled *x = a, *y = b;
    return x->issue.cluster != y->issue.cluster         ? (x->issue.cluster < y->issue.cluster ? -1 : 1)
           : x->issue.pc != y->issue.pc                 ? (x->issue.pc < y->issue.pc ? -1 : 1)
           : x->issue.warp != y->issue.warp             ? (x->issue.warp < y->issue.warp ? -1 : 1)
           : x->issue.occurrence != y->issue.occurrence ? (x->issue.occurrence < y->issue.occurrence ? -1 : 1)
                                                        : 0;
}

/* Reduces search->item level by level and returns how many items remain. */
static uint32_t leave_out_items(struct search *search, uint32_t count) {
    struct group *groups = calloc(2 * (size_t)count + 1, sizeof *groups);
    if (groups == NULL) {
        (void)fail(search, SIM_NO_MEMORY, no_memory);
        return 0;
    }
    search->left = count;
    for (enum level level = OF_CLUSTERS; level < LEVELS; level++) {
        size_t ngroups = 0;
        for (uint32_t i = 0; i < count; i++) {
            if (i == 0 || !in_group(&search->item[i - 1], &search->item[i], level)) {
                groups[ngroups++] = (struct group){i, 0};
            }
            groups[ngroups - 1].count++;
        }
        ngroups = leave_out(search, groups, ngroups, groups + count);
        uint32_t kept = 0;
        for (size_t i = 0; i < ngroups;
             i++) { /* in ascending order, so that no group is overwritten before it moves */
            memmove(&search->item[kept], &search->item[groups[i].first],
                    groups[i].count * sizeof *search->item);
            kept += groups[i].count;
        }
        count = kept;
    }
    free(groups);
    return count;
}

/* ---- which finding to look for ---- */

/* The first of the most severe findings that run `all` shows and run `none` does not; NULL: there is none. */
static const struct sim_finding *choose(const struct search *search, const struct sim *all,
                                        const struct sim *none) {
    static const int weight[] = {[SIM_CLEAN] = 0, [SIM_REVIEW] = 1, [SIM_INCOMPLETE] = 2, [SIM_ERROR] = 3};
    const struct sim_finding *best = NULL;
    for (size_t i = 0; i < all->nfindings; i++) {
        const struct sim_finding *one = &all->findings[i].finding;
        bool asked = search->options.kind == NULL || strcmp(search->options.kind, one->kind) == 0;
        bool always = false;
        for (size_t j = 0; none != NULL && j < none->nfindings; j++) {
            always |= same_finding(one, &none->findings[j].finding);
        }
        if (asked && !always && (best == NULL || weight[one->verdict] > weight[best->verdict])) {
            best = one;
        }
    }
    return best;
}

/* ---- the search ---- */

/* Runs with all delays and with none, and sets search->wanted. False if there is no finding, or it appears
 * without delays too. *kept: the simulator that owns the finding's texts. */
static bool find_wanted(struct search *search, struct sim_shrunk *shown, struct sim **kept) {
    const bool random = search->trials.sim->options.mode == SIM_RANDOM;
    bool by_caller = search->options.shows != NULL;
    bool all = shows_with(search, true, random);
    if (search->failed) {
        return false;
    }
    shown->operations = search->trials.schedule.issues;
    search->undelayed = search->trials.schedule.issues > search->trials.schedule.count;
    search->trials.run_limit = 4 * search->trials.last->counters.instructions + ((uint64_t)1 << 20);
    search->item = malloc((search->trials.schedule.count + 1u) * sizeof *search->item);
    if (search->item == NULL) {
        return fail(search, SIM_NO_MEMORY, no_memory);
    }
    search->left = search->trials.schedule.count;
    memcpy(search->item, search->trials.schedule.list, search->left * sizeof *search->item);
    *kept = search->trials.last;
    search->trials.last = NULL;
    shown->found = by_caller ? all : choose(search, *kept, NULL) != NULL;
    bool none = shown->found && shows_with(search, false, false);
    if (search->failed || !shown->found) {
        return false;
    }
    const struct sim_finding *wanted = by_caller ? NULL : choose(search, *kept, search->trials.last);
    shown->always = by_caller ? none : wanted == NULL;
    if (!by_caller) {
        search->wanted = shown->finding = *(wanted != NULL ? wanted : choose(search, *kept, NULL));
    }
    search->chosen = !by_caller;
    return !shown->always;
}

static void shrink(struct search *search, struct shrinking *to) {
    const bool random = search->trials.sim->options.mode == SIM_RANDOM;
    to->shown.stopped = "";
    if (!find_wanted(search, &to->shown, &to->last)) {
        to->shown.least = !search->undelayed || to->shown.always;
        to->shown.stopped = to->shown.least ? "" : too_many;
        return;
    }
    uint32_t count = search->left;
    search->turns = random && !shows_with(search, true, false);
    if (search->turns && !search->failed && shows_with(search, false, true)) {
        count = 0;
    }
    qsort(search->item, count, sizeof *search->item, by_place);
    count = search->failed ? 0 : leave_out_items(search, count);
    to->shown.stopped = search->stopped[0] == '\0' && search->undelayed ? too_many : search->stopped;
    to->shown.least = to->shown.stopped[0] == '\0';
    search->stopped = "";
    search->options.most_runs = UINT32_MAX;
    search->options.most_instructions = UINT64_MAX;
    const struct group whole = {0, count};
    if (!search->failed && !shows(search, &whole, 1) && !search->failed) {
        (void)fail(search, SIM_RUN_ERROR,
                   "the launch behaves differently from run to run: it reads memory that others write");
    }
    if (!search->failed &&
        !shrinking_describe(to, search->trials.module.ptx, &search->trials.schedule, search->turns)) {
        (void)fail(search, SIM_NO_MEMORY, no_memory);
    }
}

const struct sim_shrunk *sim_shrink(struct sim *sim, struct sim_module *module, const char *kernel,
                                    const struct sim_launch_attributes *attributes,
                                    const struct sim_shrink_options *options) {
    struct search search = {.trials = {.sim = sim,
                                       .module = {.ptx = module->ptx},
                                       .kernel = kernel,
                                       .attributes = attributes,
                                       .run_limit = UINT64_MAX},
                            .stopped = ""};
    search.trials.schedule.found = found;
    search.trials.schedule.context = &search;
    if (options != NULL) {
        search.options = *options;
    }
    search.options.most_runs = search.options.most_runs == 0 ? MOST_RUNS : search.options.most_runs;
    search.trials.schedule.most =
        search.options.most_operations == 0 ? MOST_OPERATIONS : search.options.most_operations;
    search.options.most_instructions =
        search.options.most_instructions == 0 ? MOST_INSTRUCTIONS : search.options.most_instructions;
    shrinking_free(sim->shrinking);
    sim->shrinking = NULL;
    if (sim->timing != NULL) {
        (void)fail(&search, SIM_BAD_ARGUMENT, "with simulated time no mode delays anything");
        return NULL;
    }
    struct shrinking *made = calloc(1, sizeof *made);
    if (made == NULL || !trials_begin(&search.trials)) {
        (void)fail(&search, SIM_NO_MEMORY, no_memory);
    } else {
        shrink(&search, made);
        made->shown.runs = search.runs;
    }
    trials_end(&search.trials);
    sim_destroy(search.trials.last);
    free(search.item);
    if (search.failed) {
        shrinking_free(made);
        return NULL;
    }
    sim->shrinking = made;
    return &made->shown;
}

const struct sim_shrunk *sim_last_shrunk(const struct sim *sim) {
    return sim->shrinking == NULL ? NULL : &sim->shrinking->shown;
}
