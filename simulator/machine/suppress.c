/* Suppressions: rules of the user that hide findings judged before. */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>

#include "findings.h"

#define MAX_WORD 500

/* Kinds that end the run.  If one were hidden, the cut-off run would look complete. */
static const char *const endings[] = {"deadlock",       "divergent-aligned", "runaway",
                                      "launch-refused", "no-mbarrier",       "interrupted"};

static bool ends_the_run(const char *kind) {
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        if (strcmp(kind, endings[i]) == 0) {
            return true;
        }
    }
    return false;
}

static void free_rule(struct sim_suppression *rule) {
    free((void *)(uintptr_t)rule->kind);
    free((void *)(uintptr_t)rule->kernel);
    free((void *)(uintptr_t)rule->place);
}

void suppressions_free(struct sim *sim) {
    for (size_t i = 0; i < sim->nsuppressions; i++) {
        free_rule(&sim->suppressions[i]);
    }
    free(sim->suppressions);
    sim->suppressions = NULL;
    sim->nsuppressions = 0;
}

static int add_rule(struct sim *sim, char words[3][MAX_WORD], uint32_t line) {
    struct sim_suppression *grown =
        realloc(sim->suppressions, (sim->nsuppressions + 1) * sizeof *sim->suppressions);
    if (grown == NULL) {
        return -1;
    }
    sim->suppressions = grown;
    struct sim_suppression rule = {strdup(words[0]), strdup(words[1]), strdup(words[2]), line, 0};
    if (rule.kind == NULL || rule.kernel == NULL || rule.place == NULL) {
        free_rule(&rule);
        return -1;
    }
    grown[sim->nsuppressions++] = rule;
    return 0;
}

int sim_suppress(struct sim *sim, const char *text, char *message, size_t room) {
    uint32_t number = 0;
    for (const char *at = text; *at != '\0';) {
        size_t bytes = strcspn(at, "\n");
        char line[3 * MAX_WORD], words[3][MAX_WORD] = {"", "*", "*"}, rest[2] = "";
        number++;
        if (bytes >= sizeof line) {
            (void)snprintf(message, room, "line %u: more than %zu characters", number, sizeof line - 1);
            return -1;
        }
        memcpy(line, at, bytes);
        line[strcspn((line[bytes] = '\0', line), "#")] = '\0';
        at += bytes + (at[bytes] == '\n');
        int count = sscanf(line, "%499s %499s %499s %1s", words[0], words[1], words[2], rest);
        if (count <= 0) {
            continue;
        }
        if (count > 3 || strpbrk(words[0], "*?[") != NULL) {
            (void)snprintf(message, room, "line %u: expected KIND [KERNEL [PLACE]], KIND as reports name it",
                           number);
            return -1;
        }
        if (ends_the_run(words[0])) {
            (void)snprintf(message, room, "line %u: %s ends the run and cannot be suppressed", number,
                           words[0]);
            return -1;
        }
        if (add_rule(sim, words, number) != 0) {
            (void)snprintf(message, room, "out of memory");
            return -1;
        }
    }
    return 0;
}

size_t sim_suppression_count(const struct sim *sim) {
    return sim->nsuppressions;
}

const struct sim_suppression *sim_suppression(const struct sim *sim, size_t index) {
    return index < sim->nsuppressions ? &sim->suppressions[index] : NULL;
}

/* Matches FILE:LINE in any folder. */
static bool file_matches(const char *pattern, const char *place) {
    char anywhere[MAX_WORD + 2];
    (void)snprintf(anywhere, sizeof anywhere, "*/%s", pattern);
    return fnmatch(pattern, place, 0) == 0 || fnmatch(anywhere, place, 0) == 0;
}

/* `source` is "FILE:LINE" or "FILE:LINE inlined at FILE:LINE"; either place may match. */
static bool place_matches(const char *pattern, uint32_t ptx_line, const char *source) {
    static const char inlined[] = " inlined at ";
    char text[600];
    if (strcmp(pattern, "*") == 0) {
        return true;
    }
    (void)snprintf(text, sizeof text, "ptx:%u", ptx_line);
    if (strcmp(pattern, text) == 0) {
        return true;
    }
    (void)snprintf(text, sizeof text, "%s", source);
    char *caller = strstr(text, inlined);
    if (caller != NULL) {
        *caller = '\0';
        if (file_matches(pattern, caller + sizeof inlined - 1)) {
            return true;
        }
    }
    return text[0] != '\0' && file_matches(pattern, text);
}

bool suppressed(struct sim *sim, enum sim_verdict verdict, const char *kind, const char *kernel,
                uint32_t ptx_line, const char *source) {
    if (verdict == SIM_INCOMPLETE || ends_the_run(kind)) {
        return false;
    }
    for (size_t i = 0; i < sim->nsuppressions; i++) {
        struct sim_suppression *rule = &sim->suppressions[i];
        if (strcmp(rule->kind, kind) == 0 && fnmatch(rule->kernel, kernel, 0) == 0 &&
            place_matches(rule->place, ptx_line, source)) {
            rule->times++;
            return true;
        }
    }
    return false;
}
