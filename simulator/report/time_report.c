/* Prints simulated time: which units were busy, what warps waited for, and what determined the end of the
 * launch. */
#include "time_report.h"
#include "place.h"

#include <string.h>

#define WARPS       32
#define STATED_MOST 0.05 /* smallest share of the chain that is named */
#define LISTED_MOST 0.02 /* smallest share of a PTX line that is listed */
#define ROOM        600

/* A unit busy for this share of the time sets the pace, whatever the longest chain consists of. */
#define FULL 0.85

static double chain_length(const struct sim_timed_launch *launch) {
    double sum = -launch->chain[SIM_STEP_BEFORE]; /* the earlier launch has its own report */
    for (int i = 0; i < SIM_STEPS; i++) {
        sum += launch->chain[i];
    }
    return sum > 0 ? sum : 1;
}

static void step_label(char *to, size_t room, int step) {
    if (step >= SIM_STEP_WARPS) {
        (void)snprintf(to, room, "instructions of warp %d", step - SIM_STEP_WARPS);
    } else {
        (void)snprintf(to, room, "%s", sim_step_name(step));
    }
}

static int largest(const double *values, int count) {
    int best = 0;
    for (int i = 1; i < count; i++) {
        best = values[i] > values[best] ? i : best;
    }
    return best;
}

/* Writes one sentence: the unit or latency that determines the time of the launch, with its share. */
static void critical(const struct sim_timed_launch *launch, char *to, size_t room) {
    char label[80];
    double left[SIM_STEPS], length = chain_length(launch);
    int taken = largest(launch->busiest, SIM_RESOURCES), used;
    memcpy(left, launch->chain, sizeof left);
    left[SIM_STEP_BEFORE] = 0;
    int first = largest(left, SIM_STEPS);
    step_label(label, sizeof label, first);
    if (launch->busiest[taken] >= FULL) {
        used = snprintf(
            to, room, "%s set the pace, taken %.0f %% of the time; on the longest chain of waits: %s %.0f %%",
            sim_resource_name(taken), 100 * launch->busiest[taken], label, 100 * left[first] / length);
    } else {
        used =
            snprintf(to, room,
                     "%s: %.0f %% of the longest chain of waits (the most taken unit: %s, %.0f %% of the time)",
                     label, 100 * left[first] / length, sim_resource_name(taken), 100 * launch->busiest[taken]);
    }
    left[first] = 0;
    for (int i = largest(left, SIM_STEPS); left[i] / length >= STATED_MOST && used > 0 && (size_t)used < room;
         i = largest(left, SIM_STEPS)) {
        step_label(label, sizeof label, i);
        used += snprintf(to + used, room - (size_t)used, ", %s %.0f %%", label, 100 * left[i] / length);
        left[i] = 0;
    }
}

static void warps_json(const struct sim_timed_launch *launch, FILE *to) {
    (void)fputs("}, \"warps\": [", to);
    for (int i = 0; i < WARPS && launch->lived[i] > 0; i++) {
        (void)fprintf(to,
                      "%s{\"lived\": %.1f, \"barrier\": %.1f, \"mbarrier\": %.1f, \"cluster\": %.1f, "
                      "\"own operations\": %.1f}",
                      i == 0 ? "" : ", ", launch->lived[i], launch->bar[i], launch->mbarrier[i],
                      launch->cluster[i], launch->own[i]);
    }
    (void)fputs("]", to);
}

static void chain_json(const struct sim_timed_launch *launch, FILE *to) {
    const char *separator = ", \"chain\": {";
    for (int i = 0; i < SIM_STEPS; i++) {
        char label[80];
        step_label(label, sizeof label, i);
        if (launch->chain[i] > 0) {
            (void)fprintf(to, "%s\"%s\": %.1f", separator, label, launch->chain[i]);
            separator = ", ";
        }
    }
    (void)fputs(separator[2] == '\0' ? "}" : ", \"chain\": {}", to);
}

static void lines_json(const struct sim_timed_launch *launch, FILE *to) {
    (void)fputs(", \"lines\": [", to);
    for (int i = 0; i < SIM_COSTLY && launch->lines[i].share > 0; i++) {
        const struct sim_costly_line *line = &launch->lines[i];
        (void)fprintf(to,
                      "%s{\"share\": %.3f, \"cost\": \"%s\", \"ptx_line\": %u, \"ptx\": ", i == 0 ? "" : ", ",
                      line->share, sim_cost_name(line->cost), line->ptx_line);
        print_string(to, line->ptx);
        (void)fputs(", \"source\": ", to);
        print_string(to, line->source);
        (void)fputs("}", to);
    }
    (void)fputs("]", to);
}

static void launch_json(const struct sim_timed_launch *launch, FILE *to) {
    char sentence[ROOM], name[200];
    (void)fputs("{\"kernel\": ", to);
    print_string(to, launch->kernel);
    print_member(to, "name", sim_short_name(launch->kernel, name, sizeof name));
    (void)fprintf(to, ", \"start_us\": %.4f, \"end_us\": %.4f, \"busy\": {", launch->start_us, launch->end_us);
    for (int i = 0; i < SIM_RESOURCES; i++) {
        (void)fprintf(to, "%s\"%s\": [%.4f, %.4f]", i == 0 ? "" : ", ", sim_resource_name(i), launch->busy[i],
                      launch->busiest[i]);
    }
    warps_json(launch, to);
    chain_json(launch, to);
    lines_json(launch, to);
    critical(launch, sentence, sizeof sentence);
    print_member(to, "critical", sentence);
    (void)fputs("}", to);
}

void time_json(const struct sim *sim, FILE *to) {
    struct sim_time time;
    struct sim_timed_launch launch;
    if (!sim_time(sim, &time)) {
        return;
    }
    (void)fprintf(to, "\"time\": {\"evidence\": \"simulated\", \"chip\": \"%s\", \"error\": ", time.chip);
    print_string(to, time.error);
    (void)fprintf(to,
                  ", \"clock_ghz\": %.3f, \"cycles\": %.2f, \"us\": %.4f, \"kernel_cycles\": %.2f, "
                  "\"kernel_us\": %.4f, \"launches\": [",
                  time.clock_ghz, time.cycles, time.us, time.kernel_cycles, time.kernel_us);
    for (size_t i = 0; sim_timed_launch(sim, i, &launch); i++) {
        (void)fputs(i == 0 ? "" : ", ", to);
        launch_json(&launch, to);
    }
    (void)fputs("]}, ", to);
}

static void share_text(FILE *to, const char **separator, const char *name, double share) {
    if (share >= 0.005) {
        (void)fprintf(to, "%s%s %.0f %%", *separator, name, 100 * share);
        *separator = ", ";
    }
}

/* Prints the last launch; the JSON has all of them. */
static void launch_text(const struct sim_timed_launch *launch, FILE *to) {
    char sentence[ROOM];
    const char *separator = "";
    (void)fputs("simulated, busy on the SM where it is most: ", to);
    for (int i = 0; i < SIM_RESOURCES; i++) {
        share_text(to, &separator, sim_resource_name(i), launch->busiest[i]);
    }
    (void)fputs("\n", to);
    for (int i = 0; i < WARPS && launch->lived[i] > 0; i++) {
        double waited = launch->bar[i] + launch->mbarrier[i] + launch->cluster[i] + launch->own[i];
        (void)fprintf(to, "simulated, warp %d of a CTA: %.0f cycles, ", i, launch->lived[i]);
        separator = "";
        share_text(to, &separator, "mbarriers", launch->mbarrier[i] / launch->lived[i]);
        share_text(to, &separator, "barriers", launch->bar[i] / launch->lived[i]);
        share_text(to, &separator, "the cluster", launch->cluster[i] / launch->lived[i]);
        share_text(to, &separator, "its own operations", launch->own[i] / launch->lived[i]);
        share_text(to, &separator, "instructions and their operands", 1 - waited / launch->lived[i]);
        (void)fputs("\n", to);
    }
    critical(launch, sentence, sizeof sentence);
    (void)fprintf(to, "simulated, critical: %s\n", sentence);
    for (int i = 0; i < SIM_COSTLY && launch->lines[i].share >= LISTED_MOST; i++) {
        const struct sim_costly_line *line = &launch->lines[i];
        (void)fprintf(to, "%s  %3.0f %%  PTX line %u, %s: %s%s%s\n",
                      i > 0 ? "" : "simulated, lines of that chain:\n", 100 * line->share, line->ptx_line,
                      sim_cost_name(line->cost), line->ptx, line->source[0] != '\0' ? " | " : "", line->source);
    }
}

void sim_print_times(const struct sim *sim, FILE *to) {
    struct sim_time time;
    struct sim_timed_launch launch;
    size_t count = 0;
    if (!sim_time(sim, &time)) {
        return;
    }
    (void)fprintf(to,
                  "simulated time on %s at %.3f GHz: the kernel %.2f cycles, %.4f us; with its launch %.4f us\n"
                  "simulated, not measured; the model's error: %s\n",
                  time.chip, time.clock_ghz, time.kernel_cycles, time.kernel_us, time.us, time.error);
    while (sim_timed_launch(sim, count, &launch)) {
        count++;
    }
    if (count > 0 && sim_timed_launch(sim, count - 1, &launch)) {
        launch_text(&launch, to);
    }
}
