/* Prints the smallest set of delays that shows a finding, as a table and as JSON. */
#include "place.h"

static void print_title(const struct sim_shrunk *shrunk, FILE *to) {
    const struct sim_finding *finding = &shrunk->finding;
    const bool named = finding->kind != NULL;
    (void)fprintf(to, "%s", named ? finding->kind : "the fault");
    if (named && finding->source[0] != '\0') {
        (void)fprintf(to, " at %s", finding->source);
    } else if (named && finding->ptx_line != 0) {
        (void)fprintf(to, " at PTX line %u", finding->ptx_line);
    }
}

static void print_delay(const struct sim_delay *delay, FILE *to) {
    (void)fprintf(to, "  %s", delay->operation);
    if (delay->ptx_line != 0) {
        (void)fprintf(to, ", CTA %u,%u,%u, warp %d", delay->cta[0], delay->cta[1], delay->cta[2], delay->warp);
    }
    if (delay->lane >= 0) {
        (void)fprintf(to, ", lane %d", delay->lane);
    }
    if (delay->occurrence > 0) {
        (void)fprintf(to, ", time %u", delay->occurrence);
    }
    (void)fprintf(to, ": %s\n", delay->until);
    if (delay->ptx_line != 0) {
        print_place("at", delay->ptx_line, delay->ptx, delay->source, to);
    }
}

void sim_print_shrunk(const struct sim *sim, FILE *to) {
    const struct sim_shrunk *shrunk = sim_last_shrunk(sim);
    if (shrunk == NULL) {
        return;
    }
    if (!shrunk->found) {
        (void)fprintf(to, "shrunk: the mode shows no finding to shrink (%u run%s%s%s)\n", shrunk->runs,
                      shrunk->runs == 1 ? "" : "s", shrunk->least ? "" : "; search stopped early by ",
                      shrunk->stopped);
        return;
    }
    (void)fputs("shrunk: ", to);
    print_title(shrunk, to);
    if (shrunk->always) {
        (void)fprintf(to, " needs no delay: it occurs even if every operation takes effect at once (%u runs)\n",
                      shrunk->runs);
        return;
    }
    (void)fprintf(to, " needs %zu delay%s, of %zu operation%s (%u runs%s%s)\n", shrunk->count,
                  shrunk->count == 1 ? "" : "s", shrunk->operations, shrunk->operations == 1 ? "" : "s",
                  shrunk->runs, shrunk->least ? "" : "; fewer may suffice: search stopped early by ",
                  shrunk->stopped);
    for (size_t i = 0; i < shrunk->count; i++) {
        print_delay(&shrunk->delays[i], to);
    }
}

void print_shrunk_json(const struct sim *sim, FILE *to) {
    const struct sim_shrunk *shrunk = sim_last_shrunk(sim);
    if (shrunk == NULL) {
        return;
    }
    const struct sim_finding *finding = &shrunk->finding;
    (void)fputs("\"shrunk\": {\"kind\": ", to);
    print_string(to, finding->kind == NULL ? "" : finding->kind);
    (void)fprintf(to, ", \"ptx_line\": %u, \"source\": ", finding->ptx_line);
    print_string(to, finding->source == NULL ? "" : finding->source);
    (void)fprintf(to,
                  ", \"found\": %s, \"always\": %s, \"least\": %s, \"stopped\": \"%s\", \"runs\": %u, "
                  "\"operations\": %zu, \"delays\": [",
                  shrunk->found ? "true" : "false", shrunk->always ? "true" : "false",
                  shrunk->least ? "true" : "false", shrunk->stopped, shrunk->runs, shrunk->operations);
    for (size_t i = 0; i < shrunk->count; i++) {
        const struct sim_delay *delay = &shrunk->delays[i];
        (void)fprintf(to, "%s{\"operation\": ", i == 0 ? "" : ", ");
        print_string(to, delay->operation);
        (void)fprintf(
            to,
            ", \"cta\": [%u, %u, %u], \"warp\": %d, \"lane\": %d, \"ptx_line\": %u, \"occurrence\": %u, "
            "\"ptx\": ",
            delay->cta[0], delay->cta[1], delay->cta[2], delay->warp, delay->lane, delay->ptx_line,
            delay->occurrence);
        print_string(to, delay->ptx);
        print_member(to, "source", delay->source);
        print_member(to, "until", delay->until);
        (void)fputc('}', to);
    }
    (void)fputs("]}, ", to);
}
