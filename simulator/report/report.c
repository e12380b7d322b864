/* Counters and findings as JSON and as text. */
#include "machine/findings.h"
#include "machine/machine.h"

static const char *const class_names[] = {
    "integer", "float",   "convert", "move",     "global memory", "shared memory", "other memory", "atomic",
    "warp",    "control", "barrier", "mbarrier", "async copy",    "tensor",        "fence",        NULL};

const char *sim_class_name(int index) {
    return index >= 0 && index < CL_CLASSES ? class_names[index] : NULL;
}

static void print_string(FILE *to, const char *text) {
    (void)fputc('"', to);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            (void)fprintf(to, "\\%c", c);
        } else if (c == '\n') {
            (void)fputs("\\n", to);
        } else if (c < ' ') {
            (void)fprintf(to, "\\u%04x", c);
        } else {
            (void)fputc(c, to);
        }
    }
    (void)fputc('"', to);
}

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

void sim_print_json(const struct sim *sim, FILE *to) {
    const struct sim_counters *c = &sim->counters;
    (void)fprintf(to, "{\"verdict\": \"%s\", \"counters\": {", sim_verdict_name(sim_verdict(sim)));
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        (void)fprintf(to, "\"%s\": %llu, ", fields[i].name, (unsigned long long)field_value(c, i));
    }
    (void)fprintf(to, "\"seconds\": %.6f, \"instructions_by_class\": {", c->seconds);
    for (int i = 0; i < CL_CLASSES; i++) {
        (void)fprintf(to, "%s\"%s\": %llu", i == 0 ? "" : ", ", class_names[i],
                      (unsigned long long)c->by_class[i]);
    }
    (void)fputs("}, \"instructions_by_warp\": [", to);
    for (int warp = 0, printed = 0; warp < MAX_WARPS; warp++) {
        uint64_t total = 0;
        for (int i = 0; i < CL_CLASSES; i++) {
            total += c->by_warp[warp][i];
        }
        if (total == 0) {
            continue;
        }
        (void)fprintf(to, "%s{\"index\": %d, \"instructions\": %llu", printed++ == 0 ? "" : ", ", warp,
                      (unsigned long long)total);
        for (int i = 0; i < CL_CLASSES; i++) {
            if (c->by_warp[warp][i] > 0) {
                (void)fprintf(to, ", \"%s\": %llu", class_names[i], (unsigned long long)c->by_warp[warp][i]);
            }
        }
        (void)fputc('}', to);
    }
    (void)fputs("]}, \"findings\": [", to);
    for (size_t i = 0; i < sim->nfindings; i++) {
        const struct sim_finding *f = &sim->findings[i].finding;
        (void)fprintf(to, "%s{\"verdict\": \"%s\", \"kind\": \"%s\", \"message\": ", i == 0 ? "" : ", ",
                      sim_verdict_name(f->verdict), f->kind);
        print_string(to, f->message);
        (void)fputs(", \"kernel\": ", to);
        print_string(to, f->kernel);
        (void)fprintf(to, ", \"cta\": [%u, %u, %u], \"warp\": %d, \"lane\": %d, \"ptx_line\": %u, \"source\": ",
                      f->cta[0], f->cta[1], f->cta[2], f->warp, f->lane, f->ptx_line);
        print_string(to, f->source);
        (void)fprintf(to, ", \"other_ptx_line\": %u, \"other_source\": ", f->other_ptx_line);
        print_string(to, f->other_source);
        (void)fprintf(to, ", \"times\": %llu}", (unsigned long long)f->times);
    }
    (void)fputs("]}\n", to);
}

void sim_print_summary(const struct sim *sim, FILE *to) {
    const struct sim_counters *c = &sim->counters;
    (void)fprintf(to, "verdict: %s\n", sim_verdict_name(sim_verdict(sim)));
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        (void)fprintf(to, "  %-24s %15llu\n", fields[i].name, (unsigned long long)field_value(c, i));
    }
    for (int i = 0; i < CL_CLASSES; i++) {
        if (c->by_class[i] > 0) {
            (void)fprintf(to, "  %-24s %15llu\n", class_names[i], (unsigned long long)c->by_class[i]);
        }
    }
    for (int warp = 0; warp < MAX_WARPS; warp++) {
        uint64_t total = 0;
        for (int i = 0; i < CL_CLASSES; i++) {
            total += c->by_warp[warp][i];
        }
        if (total > 0) {
            (void)fprintf(to, "  instructions of warp %-3d %15llu\n", warp, (unsigned long long)total);
        }
    }
    (void)fprintf(to, "  %-24s %15.3f\n", "seconds", c->seconds);
    if (c->seconds > 0) {
        (void)fprintf(to, "  %-24s %15.1f\n", "M instructions a second",
                      (double)c->instructions / c->seconds * 1e-6);
        (void)fprintf(to, "  %-24s %15.1f\n", "M MACs a second", (double)c->tensor_macs / c->seconds * 1e-6);
    }
}
