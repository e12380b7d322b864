/* Waits for a program under `ptxsim run`, and says now and then what it does. */
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

#include "cli.h"

#define MOST_BETWEEN   300 /* seconds between two lines */
#define PAST_PART      0.5 /* of the CTAs must have ended: what is left is then at most what it took */
#define NEVER          1e9 /* seconds */
#define NS_OF_A_SECOND 1000000000u

static double seconds_now(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / NS_OF_A_SECOND;
}

static void print_duration(double seconds) {
    static const struct {
        double below, unit;
        const char *format;
    } scales[] = {{10, 1, "%.1f s"}, {120, 1, "%.0f s"}, {7200, 60, "%.0f min"}, {HUGE_VAL, 3600, "%.0f h"}};
    size_t i = 0;
    while (seconds >= scales[i].below) {
        i++;
    }
    (void)fprintf(stderr, scales[i].format, seconds / scales[i].unit);
}

/* Prints the launch that runs and how far it has come; false if none runs. */
static bool print_launch(const struct run_status *status) {
    const struct sim_progress *progress = &status->progress;
    const uint64_t ctas = __atomic_load_n(&progress->ctas, __ATOMIC_ACQUIRE);
    char kernel[sizeof progress->kernel], name[200];
    if (ctas == 0) {
        return false;
    }
    (void)snprintf(kernel, sizeof kernel, "%.*s", (int)sizeof kernel - 1, progress->kernel);
    const uint64_t ended = __atomic_load_n(&progress->ended, __ATOMIC_RELAXED);
    const double done = (double)__atomic_load_n(&progress->instructions, __ATOMIC_RELAXED);
    (void)fprintf(stderr, ", launch %llu, %s: %llu of %llu CTAs, %.1f M warp instructions",
                  (unsigned long long)atomic_load(&status->launches) + 1,
                  sim_short_name(kernel, name, sizeof name), (unsigned long long)ended,
                  (unsigned long long)ctas, done / 1e6);
    const double took = seconds_now() - (double)progress->began_ns / NS_OF_A_SECOND;
    /* CTAs that run at once all end at the end: then the launch before tells more.  Where this one has done
     * more than that, few ended CTAs would tell of a time that grows. */
    const double before = (double)progress->expected;
    const bool by_before = done < before, past = before > 0 && !by_before;
    const double part = by_before ? done / before : (double)ended / (double)ctas;
    if (took > 0) {
        (void)fprintf(stderr, " (%.1f M a second)", done / 1e6 / took);
    }
    if (past) {
        (void)fputs(", more than in the one before", stderr);
    }
    if (part > 0 && part <= 1 && (!past || part >= PAST_PART)) {
        (void)fputs(", about ", stderr);
        print_duration(took * (1 - part) / part);
        (void)fprintf(stderr, " left in this launch%s",
                      by_before ? " if it does as much as the one before" : "");
    }
    return true;
}

/* One line about what the program does: a simulation is thousands of times slower than a card, and silence
 * looks like a hang. */
static void print_progress(const struct run_status *status, double seconds) {
    (void)fputs("ptxsim: ", stderr);
    print_duration(seconds);
    if (!print_launch(status)) {
        const uint64_t launches = atomic_load(&status->launches);
        (void)fprintf(stderr, ", %llu launch%s; the program runs on the host\n", (unsigned long long)launches,
                      launches == 1 ? "" : "es");
        return;
    }
    (void)fputc('\n', stderr);
}

void cli_print_interruption(const struct run_status *status) {
    (void)fputs("ptxsim: interrupted", stderr);
    (void)print_launch(status);
    (void)fputc('\n', stderr);
}

/* SIGCHLD, and the signals for the program. */
static sigset_t waited_for(void) {
    static const int numbers[] = {SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGALRM};
    sigset_t set;
    (void)sigemptyset(&set);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        (void)sigaddset(&set, numbers[i]);
    }
    return set;
}

void cli_hold_signals(sigset_t *before) {
    const sigset_t held = waited_for();
    (void)signal(SIGCHLD, SIG_DFL); /* where it is ignored, nothing is left to wait for */
    (void)sigprocmask(SIG_BLOCK, &held, before);
}

/* The next of these signals, 0 once it is `end`; a terminal sends its signals to the program, too. */
static int next_signal(double end, bool *for_program) {
    const sigset_t set = waited_for();
    const double left = fmax(end - seconds_now(), 0);
    const struct timespec time = {(time_t)left, (long)((left - floor(left)) * NS_OF_A_SECOND)};
    siginfo_t info;
    const int number = sigtimedwait(&set, &info, &time);
    *for_program = number > 0 && number != SIGCHLD && info.si_code != SI_KERNEL;
    return number < 0 && errno == EAGAIN ? 0 : number;
}

int cli_wait(const struct run_status *status, pid_t child, double first) {
    const double began = seconds_now();
    double told = first > 0 ? first : NEVER; /* seconds until the next line */
    int waited = 0;
    while (waitpid(child, &waited, WNOHANG) == 0) {
        bool for_program;
        const int number = next_signal(began + told, &for_program);
        if (for_program) {
            (void)kill(child, number);
        } else if (number == 0) {
            print_progress(status, told);
            told += told < MOST_BETWEEN ? told : MOST_BETWEEN;
        }
    }
    return waited;
}
