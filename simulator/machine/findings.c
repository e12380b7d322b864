/* The list of findings: one entry for each cause and place, with a count. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "findings.h"

#define MAX_FINDINGS 1000

static char *copy_text(const char *text) {
    char *copy = malloc(strlen(text) + 1);
    if (copy != NULL) {
        memcpy(copy, text, strlen(text) + 1);
    }
    return copy;
}

static const char *file_name(const struct module *module, uint32_t index) {
    for (uint32_t i = 0; i < module->nfiles; i++) {
        if (module->files[i].index == index) {
            return module->files[i].name;
        }
    }
    return "?";
}

/* file:line; for an inlined wrapper also the line that called it. */
static char *source_of(const struct module *module, const struct insn *insn) {
    char text[600];
    if (insn == NULL || insn->loc == 0) {
        return copy_text("");
    }
    const struct source_loc *loc = &module->locs[insn->loc];
    const char *file = file_name(module, loc->file), *at = file_name(module, loc->at_file);
    if (loc->at_line != 0) {
        (void)snprintf(text, sizeof text, "%.250s:%u inlined at %.250s:%u", file, loc->line, at, loc->at_line);
    } else {
        (void)snprintf(text, sizeof text, "%.500s:%u", file, loc->line);
    }
    return copy_text(text);
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

static void add(struct launch *launch, enum sim_verdict verdict, const char *kind, const struct cta *cta,
                int warp, int lane, const struct insn *insn, const struct insn *other, const char *message) {
    struct sim *sim = launch->sim;
    struct finding_entry *entry = find_entry(sim, kind, insn, other, launch->name);
    if (entry != NULL) {
        entry->finding.times++;
        return;
    }
    if (sim->nfindings == MAX_FINDINGS) {
        return;
    }
    if (sim->nfindings == sim->findings_room) {
        size_t room = sim->findings_room == 0 ? 16 : sim->findings_room * 2;
        struct finding_entry *grown = realloc(sim->findings, room * sizeof *grown);
        if (grown == NULL) {
            return;
        }
        sim->findings = grown;
        sim->findings_room = room;
    }
    entry = &sim->findings[sim->nfindings++];
    *entry = (struct finding_entry){.insn = insn, .other = other};
    struct sim_finding *finding = &entry->finding;
    finding->verdict = verdict;
    finding->kind = kind;
    finding->message = copy_text(message);
    finding->kernel = copy_text(launch->name);
    for (int i = 0; cta != NULL && i < 3; i++) {
        finding->cta[i] = cta->index[i];
    }
    finding->warp = warp;
    finding->lane = lane;
    finding->ptx_line = insn == NULL ? 0 : insn->line;
    finding->source = source_of(launch->module, insn);
    finding->other_ptx_line = other == NULL ? 0 : other->line;
    finding->other_source = source_of(launch->module, other);
    finding->times = 1;
}

void sim_note(struct launch *launch, enum sim_verdict verdict, const char *kind, const struct cta *cta,
              int warp, int lane, const struct insn *insn, const struct insn *other, const char *message) {
    struct sim *sim = launch->sim;
    (void)pthread_mutex_lock(&sim->lock);
    add(launch, verdict, kind, cta, warp, lane, insn, other, message);
    (void)pthread_mutex_unlock(&sim->lock);
}

void sim_refuse(struct sim *sim, const char *kernel, const char *why) {
    struct launch launch = {.sim = sim, .name = kernel};
    sim_note(&launch, SIM_ERROR, "launch-refused", NULL, -1, -1, NULL, NULL, why);
}

enum next sim_report(struct run *run, enum sim_verdict verdict, const char *kind, int lane, const char *format,
                     ...) {
    char message[400];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    sim_note(run->launch, verdict, kind, run->cta, (int)run->warp->index, lane, run->insn, NULL, message);
    if (verdict < SIM_ERROR) {
        return NEXT;
    }
    run->cluster->failed = true;
    return FAIL;
}

enum next sim_report_pair(struct run *run, enum sim_verdict verdict, const char *kind, int lane,
                          const struct insn *other, const char *format, ...) {
    char message[400];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    sim_note(run->launch, verdict, kind, run->cta, (int)run->warp->index, lane, run->insn, other, message);
    return NEXT;
}

const char *sim_verdict_name(enum sim_verdict verdict) {
    static const char *const names[] = {"clean", "review", "error", "incomplete"};
    return names[verdict];
}

enum sim_verdict sim_verdict(const struct sim *sim) {
    enum sim_verdict worst = SIM_CLEAN;
    for (size_t i = 0; i < sim->nfindings; i++) {
        /* An error is one whatever else was not modelled. */
        enum sim_verdict verdict = sim->findings[i].finding.verdict;
        bool worse = verdict == SIM_ERROR || (worst != SIM_ERROR && verdict > worst);
        worst = worse ? verdict : worst;
    }
    return worst;
}

size_t sim_finding_count(const struct sim *sim) {
    return sim->nfindings;
}

const struct sim_finding *sim_finding(const struct sim *sim, size_t index) {
    return index < sim->nfindings ? &sim->findings[index].finding : NULL;
}

void sim_clear_findings(struct sim *sim) {
    for (size_t i = 0; i < sim->nfindings; i++) {
        const struct sim_finding *finding = &sim->findings[i].finding;
        free((void *)(uintptr_t)finding->message);
        free((void *)(uintptr_t)finding->kernel);
        free((void *)(uintptr_t)finding->source);
        free((void *)(uintptr_t)finding->other_source);
    }
    sim->nfindings = 0;
}
