/* ptxsim: runs one kernel of a PTX file.  `ptxsim run` runs programs (run_program.c). */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "arguments.h"
#include "cli.h"
#include "sim.h"

static const char usage[] =
    "usage: ptxsim FILE.ptx [KERNEL] [options] [-- ARGUMENT...]   (default: the first kernel of the file)\n"
    "       ptxsim run [options] -- PROGRAM [ARGUMENT...]         (ptxsim run --help)\n"
    "launch:\n"
    "  --grid X[,Y[,Z]]  --block X[,Y[,Z]]  --cluster X[,Y[,Z]]\n"
    "  --shared BYTES        dynamic shared memory\n"
    "execution:\n"
    "  --mode MODE           when asynchronous operations take effect: eager (default), late, reverse,\n"
    "                        random:SEED or poison\n"
    "  --threads N           host threads (default: one for each core)\n"
    "  --no-checks           execute only, without looking for races\n"
    "  --ctas N              check only the first N CTAs; the verdict is never clean then\n"
    "  --limit N             instructions of a warp before the run is stopped as `runaway`\n"
    "  --shrink[=KIND]       find the smallest set of delayed operations that still shows a finding\n"
    "time (simulated, never measured):\n"
    "  --time CHIP           simulate time on h200, b200, rtx5090 or the chip described in a JSON file\n"
    "  --machine-code FOLDER time the machine code that ptxas made (simulator.python.machine_code)\n"
    "  --timeline FILE       write a Chrome trace of the first cluster (open it with Perfetto)\n"
    "  --no-values           MMAs leave their results unchanged: faster, for time alone\n"
    "output:\n"
    "  --json  --counters  --quiet\n"
    "  --suppressions FILE   hide the findings that match the rules in FILE\n"
    "  --dump N=FILE         write buffer argument N to FILE after the run\n"
    "  --parse               only check whether FILE.ptx can be read\n"
    "  --version  --help\n"
    "arguments, one for each parameter:\n"
    "  i32:N u32:N i64:N u64:N f32:X f64:X\n"
    "  buf:BYTES             a buffer of zeros\n"
    "  buf:BYTES=FILE        a buffer filled from a file\n"
    "  map:BUFFER:TYPE:SWIZZLE:SIZES:STRIDES:BOX[:STEPS[:FILL]]\n"
    "                        a tensor map over argument number BUFFER, a buffer.  TYPE and SWIZZLE are numbers "
    "of\n"
    "                        the CUDA driver API; lists are separated by commas; STRIDES are in bytes; STEPS "
    "are\n"
    "                        element strides (default 1); FILL 1 reads NaN outside the tensor (default 0)\n"
    "exit status: 0 clean, 1 review, 2 error, 3 incomplete; 4 nothing was run, or not to its end (wrong "
    "usage,\n"
    "unreadable PTX, a refused launch, out of memory); 6 a signal ended the run: what was found until then\n";

struct job {
    const char *file, *kernel, *timeline;
    struct sim_options options;
    struct sim_launch_attributes launch;
    const char *rules;
    int json, counters, quiet, parse_only; /* for getopt_long, which sets them to 1 */
    bool shrink;
    const char *shrink_kind; /* NULL: the first of the worst findings */
    struct arguments arguments;
    const char *dumps[MAX_ARGUMENTS];
    size_t ndumps;
};

/* Reads an option's whole number; 0, or EXIT_NOT_RUN after a message. */
static int set_number(const char *value, uint64_t most, const char *expected, uint64_t *number) {
    const char *end = read_natural(value, most, number);
    return end != NULL && *end == '\0' ? 0 : cli_fail(expected, value);
}

/* X(name, argument, number) */
#define OPTIONS(X)                                                                                             \
    X("grid", required, OPT_GRID)                                                                              \
    X("block", required, OPT_BLOCK)                                                                            \
    X("cluster", required, OPT_CLUSTER)                                                                        \
    X("shared", required, OPT_SHARED)                                                                          \
    X("mode", required, OPT_MODE)                                                                              \
    X("threads", required, OPT_THREADS)                                                                        \
    X("limit", required, OPT_LIMIT)                                                                            \
    X("dump", required, OPT_DUMP)                                                                              \
    X("time", required, OPT_TIME)                                                                              \
    X("timeline", required, OPT_TIMELINE)                                                                      \
    X("machine-code", required, OPT_MACHINE_CODE)                                                              \
    X("ctas", required, OPT_CTAS)                                                                              \
    X("suppressions", required, OPT_SUPPRESSIONS)                                                              \
    X("shrink", optional, OPT_SHRINK)                                                                          \
    X("help", no, OPT_HELP)                                                                                    \
    X("version", no, OPT_VERSION)

enum { BEFORE_OPTIONS = UCHAR_MAX, OPTIONS(OPTION_NUMBER) };

static struct job the_job = {.launch = {.grid = {1, 1, 1}, .block = {32, 1, 1}}};

#define FLAG(name, field) {name, no_argument, &the_job.field, 1}
static const struct option options[] = {OPTIONS(OPTION_ENTRY) FLAG("no-values", options.no_values),
                                        FLAG("no-checks", options.no_checks),
                                        FLAG("json", json),
                                        FLAG("counters", counters),
                                        FLAG("quiet", quiet),
                                        FLAG("parse", parse_only),
                                        {NULL, 0, NULL, 0}};

static int set_option(struct job *job, int option, const char *value) {
    uint64_t number = 0;
    int status;
    switch (option) {
    case OPT_GRID:
        return read_triple("--grid", value, job->launch.grid);
    case OPT_BLOCK:
        return read_triple("--block", value, job->launch.block);
    case OPT_CLUSTER:
        return read_triple("--cluster", value, job->launch.cluster);
    case OPT_SHARED:
        status = set_number(value, UINT32_MAX, "--shared takes a number of bytes, not", &number);
        job->launch.dynamic_shared_bytes = (uint32_t)number;
        return status;
    case OPT_MODE:
        return sim_read_mode(value, &job->options) ? 0 : cli_fail("--mode takes " SIM_MODES ", not", value);
    case OPT_THREADS:
        status = set_number(value, INT32_MAX, "--threads takes a number, not", &number);
        job->options.threads = (int)number;
        return status;
    case OPT_LIMIT:
        return set_number(value, UINT64_MAX, "--limit takes a number of instructions, not",
                          &job->options.max_instructions);
    case OPT_DUMP:
        if (job->ndumps == MAX_ARGUMENTS) {
            return cli_fail("too many --dump", value);
        }
        job->dumps[job->ndumps++] = value;
        return 0;
    case OPT_TIMELINE:
        job->timeline = value;
        job->options.timeline = 1;
        return 0;
    case OPT_MACHINE_CODE:
        job->options.machine_code = value;
        return 0;
    case OPT_TIME:
        job->options.chip = value;
        return 0;
    case OPT_CTAS:
        return read_ctas(value, &job->options.checked_ctas);
    case OPT_SUPPRESSIONS:
        job->rules = value;
        return 0;
    case OPT_SHRINK:
        job->shrink = true;
        job->shrink_kind = value;
        return 0;
    default: /* getopt_long has printed what is wrong */
        return EXIT_NOT_RUN;
    }
}

/* Options, file and kernel come before `--`, the kernel's arguments after it, from argv[*first] on.  Returns 0,
 * or EXIT_NOT_RUN after a message. */
static int read_options(struct job *job, int argc, char **argv, int *first) {
    int end = 1, option;
    while (end < argc && strcmp(argv[end], "--") != 0) {
        end++;
    }
    *first = end < argc ? end + 1 : argc;
    while ((option = getopt_long(end, argv, "", options, NULL)) != -1) {
        if (option == OPT_HELP) {
            (void)fputs(usage, stdout);
            exit(0);
        }
        if (option == OPT_VERSION) {
            (void)puts("ptxsim " SIM_VERSION);
            exit(0);
        }
        if (option != 0 && set_option(job, option, optarg) != 0) {
            return EXIT_NOT_RUN;
        }
    }
    if (optind == end) {
        return cli_fail("no PTX file; --help lists the options", "");
    }
    job->file = argv[optind++];
    job->kernel = optind < end ? argv[optind++] : NULL;
    return optind == end ? 0 : cli_fail("one file and one kernel are enough, not also", argv[optind]);
}

static int dump_buffers(const struct job *job) {
    for (size_t i = 0; i < job->ndumps; i++) {
        char *end;
        size_t number = strtoul(job->dumps[i], &end, 0);
        if (*end != '=' || number >= job->arguments.count || job->arguments.list[number].buffer == NULL) {
            return cli_fail("--dump takes NUMBER=FILE, NUMBER of a buffer argument, not", job->dumps[i]);
        }
        FILE *file = fopen(end + 1, "wb");
        if (file == NULL) {
            return cli_fail("cannot write", end + 1);
        }
        (void)fwrite(job->arguments.list[number].buffer, 1, job->arguments.list[number].buffer_bytes, file);
        (void)fclose(file);
    }
    return 0;
}

/* On a terminal, updates one line; else prints a line each time that fewer delays suffice. */
static void tell_progress(void *context, unsigned runs, size_t left) {
    size_t *least = context;
    bool terminal = isatty(STDERR_FILENO) == 1;
    if (terminal || left < *least) {
        (void)fprintf(stderr, "%sptxsim: run %u, %zu delay%s%s", terminal ? "\r" : "", runs, left,
                      left == 1 ? "" : "s", terminal ? "    " : "\n");
    }
    *least = left < *least ? left : *least;
}

/* False if the launch cannot run; sim_message says why. */
static bool shrink(const struct job *job, struct sim *sim, struct sim_module *module) {
    size_t least = SIZE_MAX;
    struct sim_shrink_options wanted = {.kind = job->shrink_kind, .progress = tell_progress, .context = &least};
    bool done = sim_shrink(sim, module, job->kernel, &job->launch, &wanted) != NULL;
    if (isatty(STDERR_FILENO) == 1) {
        (void)fputc('\n', stderr);
    }
    return done;
}

/* Sets the kernel to run: the first of the module if none was named.  An unknown name is refused with those
 * that there are. */
static int choose_kernel(struct job *job, const struct sim_module *module) {
    enum { MOST_NAMES = 20 };
    const char *name;
    if (job->kernel == NULL) {
        job->kernel = sim_kernel_name(module, 0);
        return job->kernel != NULL ? 0 : cli_fail("no kernel in", job->file);
    }
    size_t count = 0;
    for (; (name = sim_kernel_name(module, count)) != NULL; count++) {
        if (strcmp(name, job->kernel) == 0) {
            return 0;
        }
    }
    (void)fprintf(stderr, "ptxsim: no kernel '%s' in %s; its kernels:", job->kernel, job->file);
    for (size_t i = 0; i < count && i < MOST_NAMES; i++) {
        (void)fprintf(stderr, " %s", sim_kernel_name(module, i));
    }
    (void)fputs(count > MOST_NAMES ? " ...\n" : "\n", stderr);
    return EXIT_NOT_RUN;
}

static int run(struct job *job, struct sim *sim, int argc, char **argv, int first) {
    size_t bytes;
    if (job->rules != NULL && cli_read_rules(sim, job->rules) != 0) {
        return EXIT_NOT_RUN;
    }
    char *text = cli_read_file(job->file, &bytes);
    if (text == NULL) {
        return cli_fail(job->file, strerror(errno));
    }
    struct sim_module *module = sim_load(sim, text, bytes);
    free(text);
    if (module == NULL) {
        return cli_fail(job->file, sim_message(sim));
    }
    if (job->parse_only) {
        return 0;
    }
    if (choose_kernel(job, module) != 0) {
        return EXIT_NOT_RUN;
    }
    for (int i = first; i < argc; i++) {
        size_t room = sim_parameter_bytes(module, job->kernel, i - first);
        if (room > sizeof job->arguments.list->bytes) {
            return cli_fail("no argument can fill a parameter of more than 128 bytes", argv[i]);
        }
        if (!read_argument(&job->arguments, sim, argv[i])) {
            char detail[300];
            (void)snprintf(detail, sizeof detail,
                           "%.200s; expected TYPE:VALUE, such as u32:7 (--help lists all)", argv[i]);
            return cli_fail("bad argument", detail);
        }
    }
    void *pointers[MAX_ARGUMENTS];
    for (size_t i = 0; i < job->arguments.count; i++) {
        pointers[i] = job->arguments.list[i].bytes;
    }
    job->launch.arguments = pointers;
    job->launch.argument_count = job->arguments.count;
    if (job->shrink && !shrink(job, sim, module)) {
        return cli_fail("--shrink", sim_message(sim));
    }
    int status = sim_launch(sim, module, job->kernel, &job->launch);
    if (status != SIM_OK && status != SIM_RUN_ERROR) {
        return cli_fail("launch refused", sim_message(sim));
    }
    status = dump_buffers(job);
    FILE *timeline = job->timeline == NULL ? NULL : fopen(job->timeline, "w");
    if (job->timeline != NULL && timeline == NULL) {
        return cli_fail(job->timeline, strerror(errno));
    }
    if (timeline != NULL) {
        sim_print_timeline(sim, timeline);
        (void)fclose(timeline);
    }
    if (job->json) {
        sim_print_json(sim, stdout);
    } else if (!job->quiet) {
        sim_print_findings(sim, 0, stdout);
        sim_print_shrunk(sim, stdout);
        if (job->counters) {
            sim_print_counters(sim, stdout);
        }
        sim_print_summary(sim, stdout);
    }
    return status != 0 ? status : sim_interrupted(sim) != 0 ? EXIT_INTERRUPTED : (int)sim_verdict(sim);
}

static struct sim *interruptible;

static void interrupt(int number) {
    static time_t first;
    if (first != 0 && time(NULL) - first > 1) { /* not its copy for the group */
        (void)signal(number, SIG_DFL);
        (void)raise(number);
    }
    first = first == 0 ? time(NULL) : first;
    sim_interrupt(interruptible, number);
}

static void catch_signals(struct sim *sim) {
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGALRM, SIGABRT};
    interruptible = sim;
    cli_warn_of_limit();
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++) {
        if (signal(ending[i], interrupt) == SIG_IGN) {
            (void)signal(ending[i], SIG_IGN);
        }
    }
}

int main(int argc, char **argv) {
    struct job *job = &the_job;
    int first;
    if (argc > 1 && strcmp(argv[1], "run") == 0) {
        return cli_run(argc - 1, argv + 1);
    }
    if (read_options(job, argc, argv, &first) != 0) {
        return EXIT_NOT_RUN;
    }
    struct sim *sim = sim_create(&job->options);
    if (sim == NULL) {
        return cli_fail("out of memory", "");
    }
    catch_signals(sim);
    struct sim_time time;
    int status = job->options.chip != NULL && !sim_time(sim, &time) ? cli_fail("--time", sim_message(sim))
                                                                    : run(job, sim, argc, argv, first);
    sim_destroy(sim);
    return status;
}
