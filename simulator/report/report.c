/* Prints counters and findings as JSON and as text. */
#include <string.h>

#include "advice.h"
#include "excerpt.h"
#include "place.h"
#include "time_report.h"

#define WARPS (sizeof((struct sim_counters *)0)->by_warp / sizeof((struct sim_counters *)0)->by_warp[0])

static const struct {
    const char *name;
    size_t offset;
} fields[] = {
#define FIELD(name) {#name, offsetof(struct sim_counters, name)}
    FIELD(launches),
    FIELD(ctas),
    FIELD(instructions),
    FIELD(tma_load_bytes),
    FIELD(tma_store_bytes),
    FIELD(global_load_bytes),
    FIELD(global_store_bytes),
    FIELD(shared_load_bytes),
    FIELD(shared_store_bytes),
    FIELD(global_load_sectors),
    FIELD(global_store_sectors),
    FIELD(shared_wavefronts),
    FIELD(shared_ideal_wavefronts),
    FIELD(tensor_instructions),
    FIELD(tensor_macs),
    FIELD(tensor_cycles),
    FIELD(barrier_waits),
    FIELD(barrier_waits_blocked),
    FIELD(async_operations),
};

static uint64_t field_value(const struct sim_counters *counters, size_t i) {
    uint64_t value;
    memcpy(&value, (const char *)counters + fields[i].offset, sizeof value);
    return value;
}

/* The number of findings that suppressions hid. */
static uint64_t hidden(const struct sim *sim) {
    uint64_t times = 0;
    for (size_t i = 0; i < sim_suppression_count(sim); i++) {
        times += sim_suppression(sim, i)->times;
    }
    return times;
}

void sim_print_json(const struct sim *sim, FILE *to) {
    char name[200], line[500];
    const struct sim_counters *c = sim_counters(sim);
    (void)fprintf(to, "{\"verdict\": \"%s\", ", sim_verdict_name(sim_verdict(sim)));
    if (sim_interrupted(sim) != 0) {
        (void)fprintf(to, "\"ended\": \"signal %d\", ", sim_interrupted(sim));
    }
    time_json(sim, to);
    (void)fputs("\"counters\": {", to);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        (void)fprintf(to, "\"%s\": %llu, ", fields[i].name, (unsigned long long)field_value(c, i));
    }
    (void)fprintf(to, "\"seconds\": %.6f, \"cpu_seconds\": %.6f, \"instructions_by_class\": {", c->seconds,
                  c->cpu_seconds);
    for (int i = 0; sim_class_name(i) != NULL; i++) {
        (void)fprintf(to, "%s\"%s\": %llu", i == 0 ? "" : ", ", sim_class_name(i),
                      (unsigned long long)c->by_class[i]);
    }
    (void)fputs("}, \"instructions_by_warp\": [", to);
    for (size_t warp = 0, printed = 0; warp < WARPS; warp++) {
        uint64_t total = 0;
        for (int i = 0; sim_class_name(i) != NULL; i++) {
            total += c->by_warp[warp][i];
        }
        if (total == 0) {
            continue;
        }
        (void)fprintf(to, "%s{\"index\": %zu, \"instructions\": %llu", printed++ == 0 ? "" : ", ", warp,
                      (unsigned long long)total);
        for (int i = 0; sim_class_name(i) != NULL; i++) {
            if (c->by_warp[warp][i] > 0) {
                (void)fprintf(to, ", \"%s\": %llu", sim_class_name(i), (unsigned long long)c->by_warp[warp][i]);
            }
        }
        (void)fputc('}', to);
    }
    (void)fputs("]}, \"findings\": [", to);
    for (size_t i = 0; i < sim_finding_count(sim); i++) {
        const struct sim_finding *f = sim_finding(sim, i);
        (void)fprintf(to, "%s{\"verdict\": \"%s\", \"kind\": \"%s\"", i == 0 ? "" : ", ",
                      sim_verdict_name(f->verdict), f->kind);
        print_member(to, "message", f->message);
        print_member(to, "kernel", f->kernel);
        (void)fprintf(to,
                      ", \"cta\": [%u, %u, %u], \"warp\": %d, \"lane\": %d, \"offset\": %lld, \"ptx_line\": %u",
                      f->cta[0], f->cta[1], f->cta[2], f->warp, f->lane, (long long)f->offset, f->ptx_line);
        print_member(to, "allocation", f->allocation);
        print_member(to, "variable", f->variable);
        print_member(to, "ptx", f->ptx);
        print_member(to, "source", f->source);
        (void)fprintf(to, ", \"other_ptx_line\": %u", f->other_ptx_line);
        print_member(to, "other_ptx", f->other_ptx);
        print_member(to, "other_source", f->other_source);
        (void)fprintf(to, ", \"launch\": %u, \"other_launch\": %u", f->launch, f->other_launch);
        print_member(to, "other_kernel", f->other_kernel);
        (void)fprintf(to, ", \"times\": %llu", (unsigned long long)f->times);
        print_member(to, "name", sim_short_name(f->kernel, name, sizeof name));
        print_member(to, "advice", advice_line(f->kind, line, sizeof line));
        (void)fputc('}', to);
    }
    (void)fputs("], ", to);
    print_shrunk_json(sim, to);
    (void)fputs("\"found\": {", to);
    for (int i = SIM_REVIEW; i <= SIM_INCOMPLETE; i++) {
        (void)fprintf(to, "\"%s\": %llu, ", sim_verdict_name((enum sim_verdict)i),
                      (unsigned long long)sim_finding_times(sim, (enum sim_verdict)i));
    }
    (void)fprintf(to, "\"unlisted\": %llu, \"suppressed\": %llu}, \"suppressions\": [",
                  (unsigned long long)sim_findings_unlisted(sim), (unsigned long long)hidden(sim));
    for (size_t i = 0; i < sim_suppression_count(sim); i++) {
        const struct sim_suppression *rule = sim_suppression(sim, i);
        (void)fprintf(to, "%s{\"line\": %u", i == 0 ? "" : ", ", rule->line);
        print_member(to, "kind", rule->kind);
        print_member(to, "kernel", rule->kernel);
        print_member(to, "place", rule->place);
        (void)fprintf(to, ", \"times\": %llu}", (unsigned long long)rule->times);
    }
    (void)fputs("], \"not_checked\": [", to);
    for (int i = 0, printed = 0; i < SIM_UNCHECKED; i++) {
        if (sim_unchecked(sim, i)) {
            (void)fputs(printed++ > 0 ? ", " : "", to);
            print_string(to, sim_unchecked_name(i));
        }
    }
    (void)fputs("]}\n", to);
}

void sim_print_summary(const struct sim *sim, FILE *to) {
    for (size_t i = 0; i < sim_suppression_count(sim); i++) {
        const struct sim_suppression *rule = sim_suppression(sim, i);
        if (rule->times == 0) {
            (void)fprintf(to, "stale suppression: line %u: %s %s %s: hid nothing\n", rule->line, rule->kind,
                          rule->kernel, rule->place);
        }
    }
    sim_print_times(sim, to);
    for (int i = 0; i < SIM_UNCHECKED; i++) {
        if (sim_unchecked(sim, i)) {
            (void)fprintf(to, "not checked: %s\n", sim_unchecked_name(i));
        }
    }
    (void)fprintf(to, "verdict: %s", sim_verdict_name(sim_verdict(sim)));
    for (int i = SIM_ERROR, order = 0; order < 3; i = order++ == 0 ? SIM_INCOMPLETE : SIM_REVIEW) {
        uint64_t times = sim_finding_times(sim, (enum sim_verdict)i);
        if (times > 0) {
            (void)fprintf(to, ", %llu x %s", (unsigned long long)times, sim_verdict_name((enum sim_verdict)i));
        }
    }
    if (hidden(sim) > 0) {
        (void)fprintf(to, ", %llu x suppressed", (unsigned long long)hidden(sim));
    }
    (void)fputc('\n', to);
}

void sim_print_counters(const struct sim *sim, FILE *to) {
    const struct sim_counters *c = sim_counters(sim);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        (void)fprintf(to, "  %-24s %15llu\n", fields[i].name, (unsigned long long)field_value(c, i));
    }
    for (int i = 0; sim_class_name(i) != NULL; i++) {
        if (c->by_class[i] > 0) {
            (void)fprintf(to, "  %-24s %15llu\n", sim_class_name(i), (unsigned long long)c->by_class[i]);
        }
    }
    for (size_t warp = 0; warp < WARPS; warp++) {
        uint64_t total = 0;
        for (int i = 0; sim_class_name(i) != NULL; i++) {
            total += c->by_warp[warp][i];
        }
        if (total > 0) {
            (void)fprintf(to, "  instructions of warp %-3zu %15llu\n", warp, (unsigned long long)total);
        }
    }
    (void)fprintf(to, "  %-24s %15.3f\n", "seconds", c->seconds);
    (void)fprintf(to, "  %-24s %15.3f\n", "CPU seconds", c->cpu_seconds);
    if (c->cpu_seconds > 0) {
        (void)fprintf(to, "  %-24s %15.1f\n", "M instructions a CPU second",
                      (double)c->instructions / c->cpu_seconds * 1e-6);
        (void)fprintf(to, "  %-24s %15.1f\n", "M MACs a CPU second",
                      (double)c->tensor_macs / c->cpu_seconds * 1e-6);
    }
}

/* Findings with the same kind, verdict, kernel and source line (without source, PTX line) form a group. */
static bool same_group(const struct sim_finding *a, const struct sim_finding *b) {
    return a->verdict == b->verdict && strcmp(a->kind, b->kind) == 0 && strcmp(a->kernel, b->kernel) == 0 &&
           (a->source[0] != '\0' ? strcmp(a->source, b->source) == 0 : a->ptx_line == b->ptx_line);
}

/* True for the first finding of a group. */
static bool leads(const struct sim *sim, size_t index) {
    for (size_t i = 0; i < index; i++) {
        if (same_group(sim_finding(sim, i), sim_finding(sim, index))) {
            return false;
        }
    }
    return true;
}

static void print_finding(const struct sim_finding *f, FILE *to) {
    char name[200];
    (void)fprintf(to, "%s: %s: %s\n", sim_verdict_name(f->verdict), f->kind, f->message);
    (void)fprintf(to, "  kernel %s", sim_short_name(f->kernel, name, sizeof name));
    if (f->ptx_line != 0 || f->warp >= 0) {
        (void)fprintf(to, ", CTA %u,%u,%u", f->cta[0], f->cta[1], f->cta[2]);
    }
    if (f->warp >= 0) {
        (void)fprintf(to, ", warp %d", f->warp);
    }
    if (f->lane >= 0) {
        (void)fprintf(to, ", lane %d", f->lane);
    }
    if (f->offset >= 0) {
        (void)fprintf(to, ", byte %#llx of %s", (unsigned long long)f->offset,
                      f->allocation[0] != '\0' ? f->allocation : "shared memory");
        if (f->variable[0] != '\0') {
            (void)fprintf(to, " (%s)", f->variable);
        }
    }
    (void)fputc('\n', to);
    if (f->ptx_line != 0) {
        print_place("at", f->ptx_line, f->ptx, f->source, to);
    }
    if (f->other_launch != 0) {
        (void)fprintf(to, "  in launch %u, against launch %u, %s%s\n", f->launch, f->other_launch,
                      f->other_ptx_line != 0 ? "kernel " : "",
                      sim_short_name(f->other_kernel, name, sizeof name));
    }
    if (f->other_ptx_line != 0) {
        print_place("against", f->other_ptx_line, f->other_ptx, f->other_source, to);
    }
}

void sim_print_findings(const struct sim *sim, size_t start, FILE *to) {
    char line[500];
    for (size_t i = start; i < sim_finding_count(sim); i++) {
        const struct sim_finding *first = sim_finding(sim, i);
        if (!leads(sim, i)) {
            continue;
        }
        uint64_t times = 0, places = 0;
        for (size_t j = i; j < sim_finding_count(sim); j++) {
            const struct sim_finding *f = sim_finding(sim, j);
            if (same_group(first, f)) {
                times += f->times;
                places++;
            }
        }
        print_finding(first, to);
        if (places > 1) {
            (void)fprintf(to, "  and %llu more pair%s of PTX lines there\n", (unsigned long long)places - 1,
                          places > 2 ? "s" : "");
        }
        if (times > 1) {
            (void)fprintf(to, "  seen %llu times\n", (unsigned long long)times);
        }
        (void)fprintf(to, "  %s\n", advice_line(first->kind, line, sizeof line));
    }
    if (sim_findings_unlisted(sim) > 0) {
        (void)fprintf(to, "%llu more findings are not listed; they count for the verdict\n",
                      (unsigned long long)sim_findings_unlisted(sim));
    }
}
