/* ptxsim run: runs an unmodified CUDA program with the simulator in place of the CUDA runtime and driver. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arguments.h"
#include "cli.h"
#include "run_status.h"

#define SHIM           "libptxsim_cuda.so"
#define FIRST_PROGRESS 10
#define MOST_PROGRESS  86400

static const char usage[] =
    "usage: ptxsim run [options] -- PROGRAM [ARGUMENT...]\n"
    "  --mode MODE           when asynchronous operations take effect: eager (default), late, reverse,\n"
    "                        random:SEED or poison\n"
    "  --chip CHIP           h200, b200, rtx5090 or gb10 (default: the one that the program has PTX for)\n"
    "  --time CHIP           simulate time: h200, b200, rtx5090 or a chip's file; events and clocks tell it\n"
    "  --timeline FILE       with --time: write a Chrome trace of each launch's first cluster (for Perfetto)\n"
    "  --no-checks           execute only, without looking for races\n"
    "  --ctas N              check only the first N CTAs of each launch; the verdict is never clean then\n"
    "  --go-on               an error does not make the program's CUDA calls fail\n"
    "  --shrink[=KIND]       find the smallest set of delayed operations of a launch that still shows a "
    "finding\n"
    "  --json FILE           write findings and counters; further processes write FILE.PID\n"
    "  --counters            print counters\n"
    "  --progress SECONDS    when to say first how far a launch has come (default 10; 0: never)\n"
    "  --suppressions FILE   hide the findings that match the rules in FILE\n"
    "Reports go to standard error, the verdict last.\n"
    "exit status: 0 clean, 1 review, 2 error, 3 incomplete; 4 no kernel was run; 5 clean or review, but the\n"
    "program itself failed; 6 a signal ended the run, whose report has what was found until then\n";

struct run {
    const char *json, *rules, *timed, *timeline, *chip;
    struct sim *sim; /* only reads the suppressions, runs nothing */
    struct run_status *status;
    double progress; /* seconds until the first line of progress; 0: none */
    char status_path[PATH_MAX], folder[PATH_MAX], program[PATH_MAX];
};

/* Finds the folder with the shared library of the CUDA runtime shim: next to ptxsim, or as installed. */
static bool find_folder(struct run *run) {
    static const char *const places[] = {"cuda", "../lib/ptxsim"};
    char self[PATH_MAX / 2], library[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    if (length <= 0) {
        return false;
    }
    self[length] = '\0';
    *strrchr(self, '/') = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        (void)snprintf(run->folder, sizeof run->folder, "%s/%s", self, places[i]);
        (void)snprintf(library, sizeof library, "%.4000s/%s", run->folder, SHIM);
        if (access(library, R_OK) == 0) {
            return true;
        }
    }
    return false;
}

/* Searches PATH as execvp does. */
static bool find_program(struct run *run, const char *name) {
    const char *path = strchr(name, '/') != NULL ? "" : getenv("PATH");
    path = path == NULL ? "/bin:/usr/bin" : path;
    for (;;) {
        size_t length = strcspn(path, ":");
        (void)snprintf(run->program, sizeof run->program, "%.*s%s%s", (int)length, path, length > 0 ? "/" : "",
                       name);
        if (access(run->program, X_OK) == 0) {
            return true;
        }
        if (path[length] == '\0') {
            return false;
        }
        path += length + 1;
    }
}

static int make_status(struct run *run) {
    const char *folder = getenv("TMPDIR");
    (void)snprintf(run->status_path, sizeof run->status_path, "%s/ptxsim-XXXXXX",
                   folder == NULL || folder[0] == '\0' ? "/tmp" : folder);
    int file = mkostemp(run->status_path, O_CLOEXEC);
    if (file < 0) {
        return cli_fail(run->status_path, strerror(errno));
    }
    void *memory = ftruncate(file, sizeof *run->status) != 0
                       ? MAP_FAILED
                       : mmap(NULL, sizeof *run->status, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    (void)close(file);
    if (memory == MAP_FAILED) {
        (void)unlink(run->status_path);
        return cli_fail(run->status_path, strerror(errno));
    }
    run->status = memory;
    return 0;
}

/* Prepends a folder or library to a list in the environment. */
static void prepend(const char *variable, const char *value) {
    char text[8 * PATH_MAX];
    const char *old = getenv(variable);
    (void)snprintf(text, sizeof text, "%s%s%s", value, old != NULL && old[0] != '\0' ? ":" : "",
                   old == NULL ? "" : old);
    (void)setenv(variable, text, 1);
}

static void execute(const struct run *run, char **arguments, const sigset_t *signals) {
    char library[PATH_MAX];
    cli_warn_of_limit();
    (void)snprintf(library, sizeof library, "%.4000s/%s", run->folder, SHIM);
    prepend("LD_PRELOAD", library);
    prepend("LD_LIBRARY_PATH", run->folder);
    (void)setenv("NVFP4_SIMULATE_STATUS", run->status_path, 1);
    (void)sigprocmask(SIG_SETMASK, signals, NULL);
    (void)execv(run->program, arguments);
    (void)fprintf(stderr, "ptxsim: %s: %s\n", run->program, strerror(errno));
    _exit(EXIT_NOT_RUN);
}

/* A signal from outside, or the program's end while a launch ran, left the run without its end. */
static bool interrupted_by(const struct run_status *status, int waited) {
    static const int own[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGPIPE};
    const int number = WIFSIGNALED(waited) ? WTERMSIG(waited) : 0;
    const bool in_launch = __atomic_load_n(&status->progress.ctas, __ATOMIC_ACQUIRE) != 0;
    bool outside = number != 0;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        outside &= number != own[i];
    }
    return outside || in_launch || atomic_load(&status->signal) != 0;
}

/* The worst verdict of all processes. */
static enum sim_verdict verdict_of(const struct run_status *status, bool interrupted) {
    return interrupted                                  ? SIM_INCOMPLETE
           : atomic_load(&status->times[SIM_ERROR]) > 0 ? SIM_ERROR
           : atomic_load(&status->times[SIM_INCOMPLETE]) > 0 ||
                   atomic_load(&status->unchecked[SIM_UNCHECKED_CTAS])
               ? SIM_INCOMPLETE
           : atomic_load(&status->times[SIM_REVIEW]) > 0 ? SIM_REVIEW
                                                         : SIM_CLEAN;
}

/* A JSON report for a program that ended before it could write its own. */
static void write_short_report(const struct run *run, enum sim_verdict verdict, const char *ended) {
    FILE *file = fopen(run->json, "w");
    if (file == NULL) {
        (void)cli_fail(run->json, strerror(errno));
        return;
    }
    (void)fprintf(file, "{\"verdict\": \"%s\", \"ended\": \"%s\", \"findings\": [], \"found\": {",
                  sim_verdict_name(verdict), ended);
    for (int i = SIM_REVIEW; i <= SIM_INCOMPLETE; i++) {
        (void)fprintf(file, "%s\"%s\": %llu", i == SIM_REVIEW ? "" : ", ",
                      sim_verdict_name((enum sim_verdict)i),
                      (unsigned long long)atomic_load(&run->status->times[i]));
    }
    (void)fputs("}}\n", file);
    (void)fclose(file);
}

/* Prints stale suppressions; returns how many findings the others hid. */
static uint64_t print_stale_rules(const struct run *run) {
    uint64_t hidden = 0;
    for (size_t i = 0; i < RUN_RULES && i < sim_suppression_count(run->sim); i++) {
        const struct sim_suppression *rule = sim_suppression(run->sim, i);
        uint64_t times = atomic_load(&run->status->hidden[i]);
        hidden += times;
        if (times == 0) {
            (void)fprintf(stderr, "stale suppression: line %u: %s %s %s: hid nothing\n", rule->line, rule->kind,
                          rule->kernel, rule->place);
        }
    }
    return hidden;
}

/* Prints the summary; returns the exit status. */
static int summarize(const struct run *run, int waited) {
    static const enum sim_verdict order[] = {SIM_ERROR, SIM_INCOMPLETE, SIM_REVIEW};
    struct run_status *status = run->status;
    const bool interrupted = interrupted_by(status, waited);
    enum sim_verdict verdict = verdict_of(status, interrupted);
    bool failed = !WIFEXITED(waited) || WEXITSTATUS(waited) != 0;
    char ended[80];
    (void)snprintf(ended, sizeof ended, WIFSIGNALED(waited) ? "signal %d" : "exit status %d",
                   WIFSIGNALED(waited) ? WTERMSIG(waited) : WEXITSTATUS(waited));
    if (run->json != NULL && atomic_load(&status->reports) == 0) {
        write_short_report(run, verdict, ended);
    }
    uint64_t hidden = print_stale_rules(run), launches = atomic_load(&status->launches);
    if (launches == 0 && status->progress.kernel[0] == '\0' && verdict_of(status, false) == SIM_CLEAN) {
        if (interrupted) {
            (void)fprintf(stderr, "ptxsim: %s was interrupted before it launched a kernel (%s)\n", run->program,
                          ended);
            return EXIT_NOT_RUN;
        }
        (void)fprintf(
            stderr,
            "ptxsim: no kernel was launched on the simulator (%s: %s); kernels of a library that holds its "
            "own CUDA runtime are not seen\n",
            run->program, ended);
        return EXIT_NOT_RUN;
    }
    if (failed) {
        (void)fprintf(stderr, "program: %s\n", ended);
    }
    if (interrupted) {
        cli_print_interruption(status);
    }
    for (int i = 0; i < SIM_UNCHECKED; i++) {
        if (sim_unchecked(run->sim, i) || atomic_load(&status->unchecked[i])) {
            (void)fprintf(stderr, "not checked: %s\n", sim_unchecked_name(i));
        }
    }
    (void)fprintf(stderr, "verdict: %s, %llu launch%s", sim_verdict_name(verdict), (unsigned long long)launches,
                  launches == 1 ? "" : "es");
    for (int i = 0; i < 3; i++) {
        uint64_t times = atomic_load(&status->times[order[i]]);
        if (times > 0) {
            (void)fprintf(stderr, ", %llu x %s", (unsigned long long)times, sim_verdict_name(order[i]));
        }
    }
    if (hidden > 0) {
        (void)fprintf(stderr, ", %llu x suppressed", (unsigned long long)hidden);
    }
    (void)fputc('\n', stderr);
    return interrupted ? EXIT_INTERRUPTED : verdict < SIM_ERROR && failed ? EXIT_PROGRAM_FAILED : (int)verdict;
}

static int start(struct run *run, char **arguments) {
    if (!find_program(run, arguments[0])) {
        return cli_fail(arguments[0], "no such program");
    }
    if (!find_folder(run)) {
        return cli_fail(SHIM, "not found next to ptxsim; `make simulator` builds it if nvcc is installed");
    }
    if (cli_linkage_of(run->program) == LINKED_STATIC) {
        char archive[PATH_MAX + sizeof "/../libcudart_sim.a"];
        (void)snprintf(archive, sizeof archive, "%s/../libcudart_sim.a", run->folder);
        (void)fprintf(
            stderr,
            "ptxsim: %s holds kernels and a CUDA runtime of its own, linked statically, which cannot be "
            "replaced.  Link it again with\n"
            "  nvcc -cudart shared ...\n",
            run->program);
        if (access(archive, R_OK) == 0) { /* a wheel holds no archive */
            (void)fprintf(stderr, "or\n  nvcc -cudart none ... %s -ldl -lpthread -lm\n", archive);
        }
        return EXIT_NOT_RUN;
    }
    if (run->rules != NULL && cli_read_rules(run->sim, run->rules) != 0) {
        return EXIT_NOT_RUN;
    }
    sigset_t signals;
    cli_hold_signals(&signals);
    if (make_status(run) != 0) {
        return EXIT_NOT_RUN;
    }
    pid_t child = fork();
    if (child == 0) {
        execute(run, arguments, &signals);
    }
    const int waited = child > 0 ? cli_wait(run->status, child, run->progress) : 0;
    (void)unlink(run->status_path);
    return child < 0 ? cli_fail("fork", strerror(errno)) : summarize(run, waited);
}

/* X(name, argument, number) */
#define OPTIONS(X)                                                                                             \
    X("mode", required, OPT_MODE)                                                                              \
    X("chip", required, OPT_CHIP)                                                                              \
    X("time", required, OPT_TIME)                                                                              \
    X("timeline", required, OPT_TIMELINE)                                                                      \
    X("no-checks", no, OPT_NO_CHECKS)                                                                          \
    X("ctas", required, OPT_CTAS)                                                                              \
    X("go-on", no, OPT_GO_ON)                                                                                  \
    X("json", required, OPT_JSON)                                                                              \
    X("counters", no, OPT_COUNTERS)                                                                            \
    X("progress", required, OPT_PROGRESS)                                                                      \
    X("suppressions", required, OPT_SUPPRESSIONS)                                                              \
    X("shrink", optional, OPT_SHRINK)                                                                          \
    X("help", no, OPT_HELP)

enum { BEFORE_OPTIONS = UCHAR_MAX, OPTIONS(OPTION_NUMBER) };

static const struct option options[] = {OPTIONS(OPTION_ENTRY){NULL, 0, NULL, 0}};

/* Sets a variable to an absolute path: the program may change its folder before the shim opens the file. */
static int set_path(const char *variable, const char *path) {
    char folder[PATH_MAX / 2] = "", whole[PATH_MAX];
    if (path[0] != '/' && getcwd(folder, sizeof folder) == NULL) {
        return cli_fail(path, strerror(errno));
    }
    (void)snprintf(whole, sizeof whole, "%s%s%.2000s", folder, folder[0] != '\0' ? "/" : "", path);
    return setenv(variable, whole, 1);
}

/* The names in cudart/chip_properties.c, which is not part of this program. */
static bool is_chip(const char *name) {
    static const char *const names[] = {"h200", "b200", "rtx5090", "gb10"};
    bool known = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        known |= strcmp(name, names[i]) == 0;
    }
    return known;
}

/* Simulates the time of a chip: its name, or a file that describes one. */
static int set_time(struct run *run, const char *chip) {
    struct sim_options timed = {.chip = chip};
    struct sim_time time;
    struct sim *sim = sim_create(&timed);
    const bool known = sim != NULL && sim_time(sim, &time);
    const int status = sim == NULL ? cli_fail("out of memory", "")
                       : known     ? 0
                                   : cli_fail("--time", sim_message(sim));
    sim_destroy(sim);
    run->timed = chip;
    (void)setenv("NVFP4_SIMULATE_PRINT_TIME", "1", 1);
    return status != 0               ? status
           : access(chip, R_OK) == 0 ? set_path("NVFP4_SIMULATE_TIME", chip)
                                     : setenv("NVFP4_SIMULATE_TIME", chip, 1);
}

static int set_progress(struct run *run, const char *value) {
    char *end;
    run->progress = strtod(value, &end);
    return *value < '0' || *value > '9' || *end != '\0' || run->progress > MOST_PROGRESS
               ? cli_fail("--progress takes seconds from 0 to 86400, not", value)
               : 0;
}

/* Passes the options on to the shim, which reads its environment. */
static int set_option(struct run *run, int option, char *value) {
    struct sim_options mode;
    switch (option) {
    case OPT_MODE:
        return !sim_read_mode(value, &mode) ? cli_fail("--mode takes " SIM_MODES ", not", value)
                                            : setenv("NVFP4_SIMULATE_MODE", value, 1);
    case OPT_TIME:
        return set_time(run, value);
    case OPT_TIMELINE:
        run->timeline = value;
        return set_path("NVFP4_SIMULATE_TIMELINE", value);
    case OPT_CHIP:
        run->chip = value;
        return !is_chip(value) ? cli_fail("--chip takes h200, b200, rtx5090 or gb10, not", value)
                               : setenv("NVFP4_SIMULATE_CHIP", value, 1);
    case OPT_NO_CHECKS:
        return setenv("NVFP4_SIMULATE_CHECKS", "0", 1);
    case OPT_CTAS:
        return read_ctas(value, &mode.checked_ctas) != 0 ? EXIT_NOT_RUN
                                                         : setenv("NVFP4_SIMULATE_CTAS", value, 1);
    case OPT_GO_ON:
        return setenv("NVFP4_SIMULATE_GO_ON", "1", 1);
    case OPT_JSON:
        run->json = value;
        return set_path("NVFP4_SIMULATE_JSON", value);
    case OPT_COUNTERS:
        return setenv("NVFP4_SIMULATE_COUNTERS", "1", 1);
    case OPT_PROGRESS:
        return set_progress(run, value);
    case OPT_SUPPRESSIONS:
        run->rules = value;
        return set_path("NVFP4_SIMULATE_SUPPRESSIONS", value);
    case OPT_SHRINK:
        return setenv("NVFP4_SIMULATE_SHRINK", value == NULL ? "1" : value, 1);
    default: /* getopt_long has printed what is wrong */
        return EXIT_NOT_RUN;
    }
}

int cli_run(int argc, char **argv) {
    static struct run run = {.progress = FIRST_PROGRESS};
    int option;
    while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1) {
        if (option == OPT_HELP) {
            (void)fputs(usage, stdout);
            return 0;
        }
        if (set_option(&run, option, optarg) != 0) {
            return EXIT_NOT_RUN;
        }
    }
    if (run.timeline != NULL && run.timed == NULL) {
        return cli_fail("--timeline needs --time CHIP", "");
    }
    if (run.timed != NULL && run.chip == NULL &&
        is_chip(run.timed)) { /* the PTX that runs is that chip's, too */
        (void)setenv("NVFP4_SIMULATE_CHIP", run.timed, 1);
    }
    if (optind == argc) {
        return cli_fail("run: no program; ptxsim run --help lists the options", "");
    }
    run.sim = sim_create(NULL);
    int status = run.sim == NULL ? cli_fail("out of memory", "") : start(&run, argv + optind);
    sim_destroy(run.sim);
    return status;
}
