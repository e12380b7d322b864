/* The list of findings: one entry for each kind and pair of places, with a count. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "findings.h"
#include "schedule.h"

#define MAX_FINDINGS 1000
#define MESSAGE_ROOM 400

static const char refused[] = "launch-refused";

static void free_texts(struct sim_finding *finding) {
    free((void *)(uintptr_t)finding->message);
    free((void *)(uintptr_t)finding->kernel);
    free((void *)(uintptr_t)finding->allocation);
    free((void *)(uintptr_t)finding->variable);
    free((void *)(uintptr_t)finding->ptx);
    free((void *)(uintptr_t)finding->other_ptx);
    free((void *)(uintptr_t)finding->source);
    free((void *)(uintptr_t)finding->other_source);
    free((void *)(uintptr_t)finding->other_kernel);
}

/* An error outranks `incomplete`: it stands whatever else was not modelled. */
static enum sim_verdict worse(enum sim_verdict a, enum sim_verdict b) {
    return a == SIM_ERROR || b == SIM_ERROR ? SIM_ERROR : a > b ? a : b;
}

static struct finding_entry *find_entry(struct sim *sim, const char *kind, const struct insn *insn,
                                        const struct insn *other, const char *kernel) {
    for (size_t i = 0; i < sim->nfindings; i++) {
        struct finding_entry *entry = &sim->findings[i];
        bool placed = insn != NULL || strcmp(entry->finding.kernel, kernel) == 0;
        if (placed && entry->insn == insn && entry->other == other && strcmp(entry->finding.kind, kind) == 0) {
            return entry;
        }
    }
    return NULL;
}

/* Drops the last finding of a lesser verdict from a full list; false if there is none. */
static bool drop_lesser(struct sim *sim, enum sim_verdict verdict) {
    for (size_t i = sim->nfindings; i > 0; i--) {
        struct sim_finding *finding = &sim->findings[i - 1].finding;
        if (worse(finding->verdict, verdict) != finding->verdict) {
            sim->unlisted += finding->times;
            free_texts(finding);
            sim->nfindings--;
            memmove(&sim->findings[i - 1], &sim->findings[i], (sim->nfindings - i + 1) * sizeof *sim->findings);
            return true;
        }
    }
    return false;
}

/* The place of a finding. */
struct place {
    const struct cta *cta;
    int warp, lane;
    int64_t offset;
    const struct insn *insn;
    const struct other_access *other;
    bool ends;                           /* the finding ends the run, so it cannot be suppressed */
    const struct allocation *allocation; /* NULL: the offset is in shared memory */
};

/* True if a suppression of the user matches at either of the two places. */
static bool hidden(struct launch *launch, enum sim_verdict verdict, const char *kind,
                   const struct place *place) {
    struct sim *sim = launch->sim;
    if (sim->nsuppressions == 0 || place->ends) {
        return false;
    }
    const struct insn *insns[] = {place->insn, place->other->insn};
    const struct module *modules[] = {launch->module, place->other->module};
    bool found = false;
    for (int i = 0; i < 2 && !found && (i == 0 || insns[i] != NULL); i++) {
        char *source = source_of(modules[i], insns[i]);
        found = source != NULL &&
                suppressed(sim, verdict, kind, launch->name, insns[i] == NULL ? 0 : insns[i]->line, source);
        free(source);
    }
    return found;
}

/* False: no memory. */
static bool add(struct launch *launch, enum sim_verdict verdict, const char *kind, const struct place *place,
                const char *message) {
    struct sim *sim = launch->sim;
    const struct insn *insn = place->insn, *other = place->other->insn;
    const struct other_access *against = place->other;
    if (hidden(launch, verdict, kind, place)) {
        return true;
    }
    struct finding_entry *known = find_entry(sim, kind, insn, other, launch->name);
    sim->times[verdict]++;
    sim->run_failed |= verdict >= SIM_ERROR && strcmp(kind, refused) != 0;
    if (known != NULL) {
        known->finding.times++;
        known->finding.verdict = worse(known->finding.verdict, verdict);
        return true;
    }
    if (sim->nfindings == MAX_FINDINGS && !drop_lesser(sim, verdict)) {
        sim->unlisted++;
        return true;
    }
    struct finding_entry entry = {
        .insn = insn,
        .other = other,
        .finding = {.verdict = verdict,
                    .kind = kind,
                    .message = strdup(message),
                    .kernel = strdup(launch->name),
                    .warp = place->warp,
                    .lane = place->lane,
                    .offset = place->offset,
                    .allocation = strdup(place->allocation == NULL ? "" : place->allocation->name),
                    .variable = variable_of(launch, place->cta, place->allocation, place->offset),
                    .ptx_line = insn == NULL ? 0 : insn->line,
                    .ptx = text_of(launch->module, insn),
                    .source = source_of(launch->module, insn),
                    .other_ptx_line = other == NULL ? 0 : other->line,
                    .other_ptx = text_of(against->module, other),
                    .other_source = source_of(against->module, other),
                    .times = 1,
                    .launch = launch->order.number,
                    .other_launch = against->launch,
                    .other_kernel = strdup(against->kernel)}};
    struct sim_finding *finding = &entry.finding;
    if (finding->message == NULL || finding->kernel == NULL || finding->allocation == NULL ||
        finding->variable == NULL || finding->source == NULL || finding->other_source == NULL ||
        finding->other_kernel == NULL || finding->ptx == NULL || finding->other_ptx == NULL ||
        !LIST_GROW(sim->findings, sim->nfindings, sim->findings_room)) {
        free_texts(finding);
        sim->unlisted++;
        return false;
    }
    for (int i = 0; place->cta != NULL && i < 3; i++) {
        finding->cta[i] = place->cta->index[i];
    }
    sim->findings[sim->nfindings++] = entry;
    const struct schedule *schedule = launch->schedule;
    if (schedule != NULL && schedule->found != NULL && schedule->found(schedule->context, finding)) {
        atomic_store(&launch->stop, true);
    }
    return true;
}

static void note(struct launch *launch, enum sim_verdict verdict, const char *kind, const struct place *place,
                 const char *message) {
    struct sim *sim = launch->sim;
    atomic_fetch_add(&sim->noted, 1);
    (void)pthread_mutex_lock(&sim->lock);
    bool listed = add(launch, verdict, kind, place, message);
    (void)pthread_mutex_unlock(&sim->lock);
    if (!listed) {
        launch_no_memory(launch);
    }
}

void sim_note(struct launch *launch, enum sim_verdict verdict, const char *kind, const struct cta *cta,
              int warp, int lane, const struct insn *insn, const struct insn *other, const char *format, ...) {
    char message[MESSAGE_ROOM];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    sim_note_at(launch, verdict, kind, cta, warp, lane, -1, insn, other, message);
}

void sim_note_at(struct launch *launch, enum sim_verdict verdict, const char *kind, const struct cta *cta,
                 int warp, int lane, int64_t offset, const struct insn *insn, const struct insn *other,
                 const char *message) {
    struct other_access same = {.module = launch->module, .kernel = "", .insn = other};
    struct place place = {cta, warp, lane, offset, insn, &same, false, NULL};
    note(launch, verdict, kind, &place, message);
}

void sim_note_global(struct launch *launch, enum sim_verdict verdict, const char *kind, const struct cta *cta,
                     int warp, int lane, const struct allocation *allocation, uint64_t offset,
                     const struct insn *insn, const struct insn *other, const char *message) {
    struct other_access same = {.module = launch->module, .kernel = "", .insn = other};
    struct place place = {cta, warp, lane, (int64_t)offset, insn, &same, false, allocation};
    note(launch, verdict, kind, &place, message);
}

void sim_note_launches(struct launch *launch, enum sim_verdict verdict, const char *kind, const struct cta *cta,
                       int warp, int lane, const struct allocation *allocation, uint64_t offset,
                       const struct insn *insn, const struct other_access *other, const char *message) {
    struct place place = {cta, warp, lane, (int64_t)offset, insn, other, false, allocation};
    note(launch, verdict, kind, &place, message);
}

void sim_refuse(struct sim *sim, const char *kernel, const char *why) {
    struct launch launch = {.sim = sim, .name = kernel};
    sim_note(&launch, SIM_ERROR, refused, NULL, -1, -1, NULL, NULL, "%s", why);
}

enum next sim_report(struct run *run, enum sim_verdict verdict, const char *kind, int lane, const char *format,
                     ...) {
    char message[MESSAGE_ROOM];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    struct other_access none = {.module = run->launch->module, .kernel = ""};
    struct place place = {run->cta, (int)run->warp->index, lane, -1, run->insn,
                          &none,    verdict >= SIM_ERROR,  NULL};
    note(run->launch, verdict, kind, &place, message);
    if (verdict < SIM_ERROR) {
        return NEXT;
    }
    run->cluster->failed = true;
    return FAIL;
}

enum next sim_report_pair(struct run *run, enum sim_verdict verdict, const char *kind, int lane,
                          const struct insn *other, const char *format, ...) {
    char message[MESSAGE_ROOM];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    sim_note_at(run->launch, verdict, kind, run->cta, (int)run->warp->index, lane, -1, run->insn, other,
                message);
    return NEXT;
}

const char *sim_verdict_name(enum sim_verdict verdict) {
    static const char *const names[] = {"clean", "review", "error", "incomplete"};
    return names[verdict];
}

enum sim_verdict sim_verdict(const struct sim *sim) {
    if (atomic_load(sim->interrupted) != 0) {
        return SIM_INCOMPLETE;
    }
    enum sim_verdict worst = sim->unchecked_ctas ? SIM_INCOMPLETE : SIM_CLEAN;
    for (int i = SIM_REVIEW; i <= SIM_INCOMPLETE; i++) {
        worst = sim->times[i] > 0 ? worse(worst, (enum sim_verdict)i) : worst;
    }
    return worst;
}

uint64_t sim_finding_times(const struct sim *sim, enum sim_verdict verdict) {
    return sim->times[verdict];
}

uint64_t sim_findings_unlisted(const struct sim *sim) {
    return sim->unlisted;
}

const char *sim_unchecked_name(int what) {
    static const char *const names[] = {
        [SIM_UNCHECKED_LANES] = "races on global memory between lanes of one warp in no regular order",
        [SIM_UNCHECKED_REGISTERS] = "whether setmaxnreg.inc waits forever, since neither .maxnreg nor "
                                    ".minnctapersm gives the registers at the launch",
        [SIM_UNCHECKED_CTAS] = "all CTAs of a launch but the first ones"};
    return what >= 0 && what < SIM_UNCHECKED ? names[what] : NULL;
}

bool sim_unchecked(const struct sim *sim, int what) {
    return what == SIM_UNCHECKED_LANES || (what == SIM_UNCHECKED_REGISTERS && sim->unjudged_registers) ||
           (what == SIM_UNCHECKED_CTAS && sim->unchecked_ctas);
}

bool sim_run_failed(const struct sim *sim) {
    return sim->run_failed;
}

void sim_hold_findings(struct sim *sim, bool hold) {
    (void)(hold ? pthread_mutex_lock(&sim->lock) : pthread_mutex_unlock(&sim->lock));
}

size_t sim_finding_count(const struct sim *sim) {
    return sim->nfindings;
}

const struct sim_finding *sim_finding(const struct sim *sim, size_t index) {
    return index < sim->nfindings ? &sim->findings[index].finding : NULL;
}

void sim_clear_findings(struct sim *sim) {
    for (size_t i = 0; i < sim->nfindings; i++) {
        free_texts(&sim->findings[i].finding);
    }
    sim->nfindings = 0;
    memset(sim->times, 0, sizeof sim->times);
    sim->unlisted = 0;
    sim->run_failed = false;
    for (size_t i = 0; i < sim->nsuppressions; i++) {
        sim->suppressions[i].times = 0;
    }
}
