/* Prints simulated time as a Chrome trace, the JSON that Perfetto and chrome://tracing read. */
#include "place.h"
#include "time_report.h"

/* The trace has one process for the chip, and for each CTA one for its warps and one for its SM's units. */
#define CHIP_PROCESS 1
#define FIRST_CTA    2

static void begin(FILE *to, const char **separator, const char *phase, const char *name) {
    (void)fprintf(to, "%s{\"ph\": \"%s\", \"name\": ", *separator, phase);
    print_string(to, name);
    *separator = ",\n";
}

static void name_process(FILE *to, const char **separator, int process, const char *name) {
    begin(to, separator, "M", "process_name");
    (void)fprintf(to, ", \"pid\": %d, \"args\": {\"name\": \"%s\"}}", process, name);
}

/* Names each CTA's processes and each warp's row, once each. */
static void names(const struct sim *sim, FILE *to, const char **separator) {
    bool seen[16][32 + 1] = {{false}}, cta_seen[16] = {false};
    struct sim_span span;
    name_process(to, separator, CHIP_PROCESS, "chip (simulated)");
    for (size_t i = 0; sim_span(sim, i, &span); i++) {
        if (span.cta < 0 || span.cta >= 16) {
            continue;
        }
        bool *known = &seen[span.cta][span.warp + 1];
        char name[80];
        if (!*known && span.warp < 0) {
            (void)snprintf(name, sizeof name, "units of CTA %d's SM (simulated)", span.cta);
            name_process(to, separator, FIRST_CTA + 2 * span.cta + 1, name);
        } else if (!*known) {
            if (!cta_seen[span.cta]) {
                cta_seen[span.cta] = true;
                (void)snprintf(name, sizeof name, "CTA %d (simulated)", span.cta);
                name_process(to, separator, FIRST_CTA + 2 * span.cta, name);
            }
            begin(to, separator, "M", "thread_name");
            (void)fprintf(to, ", \"pid\": %d, \"tid\": %d, \"args\": {\"name\": \"warp %d\"}}",
                          FIRST_CTA + 2 * span.cta, span.warp, span.warp);
        }
        *known = true;
    }
}

static void print_span(const struct sim_span *span, size_t id, FILE *to, const char **separator) {
    if (span->cta < 0) {
        begin(to, separator, "C", span->name);
        (void)fprintf(to, ", \"pid\": %d, \"ts\": %.4f, \"args\": {\"memory busy, %%\": %.1f}}", CHIP_PROCESS,
                      span->start_us, 100 * span->share);
        return;
    }
    int process = FIRST_CTA + 2 * span->cta;
    if (span->warp >= 0) {
        char name[200];
        begin(to, separator, "X", span->name);
        (void)fprintf(to, ", \"cat\": \"warp\", \"pid\": %d, \"tid\": %d, \"ts\": %.4f, \"dur\": %.4f, ",
                      process, span->warp, span->start_us, span->us);
        (void)fprintf(to, "\"args\": {\"launch\": %llu, \"kernel\": ", (unsigned long long)span->launch);
        print_string(to, sim_short_name(span->kernel, name, sizeof name));
        (void)fputs("}}", to);
        return;
    }
    /* Operations overlap in time, so each is an asynchronous slice with its own id. */
    for (int end = 0; end < 2; end++) {
        begin(to, separator, end == 0 ? "b" : "e", span->name);
        (void)fprintf(to, ", \"cat\": \"%s\", \"id\": %zu, \"pid\": %d, \"tid\": 0, \"ts\": %.4f}", span->name,
                      id, process + 1, span->start_us + (end == 0 ? 0 : span->us));
    }
}

void sim_print_timeline(const struct sim *sim, FILE *to) {
    struct sim_time time;
    struct sim_span span;
    const char *separator = "";
    (void)fputs("{\"displayTimeUnit\": \"ns\", \"traceEvents\": [\n", to);
    names(sim, to, &separator);
    for (size_t i = 0; sim_span(sim, i, &span); i++) {
        print_span(&span, i, to, &separator);
    }
    (void)fputs("\n], \"otherData\": {\"evidence\": \"simulated\"", to);
    if (sim_time(sim, &time)) {
        (void)fprintf(to, ", \"chip\": \"%s\", \"error\": ", time.chip);
        print_string(to, time.error);
        (void)fprintf(to, ", \"clock_ghz\": %.3f, \"events_lost\": %llu", time.clock_ghz,
                      (unsigned long long)sim_spans_lost(sim));
    }
    if (sim_interrupted(sim) != 0) {
        (void)fprintf(to, ", \"verdict\": \"%s\", \"ended\": \"signal %d\"", sim_verdict_name(sim_verdict(sim)),
                      sim_interrupted(sim));
    }
    (void)fputs("}}\n", to);
}
