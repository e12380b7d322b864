#include "interruption.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#define LOOK_SECONDS   2
#define REPEAT_SECONDS 1  /* a signal to the group and its copy from `ptxsim run` are one */
#define ABORT_SECONDS  10 /* after which abort() no longer waits for the reports */

/* Those that end a process from outside, and abort(). */
static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU, SIGALRM, SIGABRT};
#define COUNT (sizeof ending / sizeof *ending)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool holds_lock;
static struct sim *the_sim;
static atomic_int *told;
static void (*look_at)(struct sim *), (*write_reports)(void);
static struct sigaction earlier[COUNT];
static pid_t owner; /* a copy of the process has no thread that watches */
static sem_t woken;
static atomic_int last; /* the signal that woke the thread */
static atomic_llong since;

void process_lock(void) {
    (void)pthread_mutex_lock(&lock);
    holds_lock = true;
}

void process_unlock(void) {
    holds_lock = false;
    (void)pthread_mutex_unlock(&lock);
    while (atomic_load(&last) != 0) {
        (void)pause();
    }
}

static long long now_seconds(void) {
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

/* Ends the process as the signal would have done. */
static void take_course(int number) {
    (void)signal(number, SIG_DFL);
    (void)raise(number);
}

/* The program has a handler of its own, which decides; without this it would run only after the launch. */
static void end_launch_and_pass_on(int number, siginfo_t *info, void *context) {
    const struct sigaction *action = earlier;
    while (ending[action - earlier] != number) {
        action++;
    }
    atomic_store(told, number);
    sim_interrupt(the_sim, number);
    if ((action->sa_flags & SA_SIGINFO) != 0) {
        action->sa_sigaction(number, info, context);
    } else {
        action->sa_handler(number);
    }
}

static void on_signal(int number, siginfo_t *info, void *context) {
    (void)context;
    const bool aborts = number == SIGABRT && info->si_code == SI_TKILL;
    if (getpid() != owner || (aborts && holds_lock)) {
        take_course(number);
        return;
    }
    if (atomic_load(&last) != 0) {
        if (number != SIGXCPU && now_seconds() - atomic_load(&since) > REPEAT_SECONDS) {
            take_course(number);
        }
        return;
    }
    atomic_store(&since, now_seconds());
    atomic_store(&last, number);
    if (!aborts) { /* abort() ends the program, not a launch */
        atomic_store(told, number);
        sim_interrupt(the_sim, number);
    }
    (void)sem_post(&woken);
    for (int i = 0; aborts && i < ABORT_SECONDS; i++) {
        (void)sleep(1);
    }
}

/* Locks the simulator for good, which ends the program's own use of it. */
static void *watch(void *argument) {
    (void)argument;
    struct timespec until;
    int wait;
    do {
        (void)clock_gettime(CLOCK_REALTIME, &until);
        until.tv_sec += LOOK_SECONDS;
        wait = sem_timedwait(&woken, &until);
        if (wait != 0 && errno == ETIMEDOUT) {
            look_at(the_sim);
        }
    } while (wait != 0);
    process_lock();
    write_reports();
    const int number = atomic_load(&last);
    (void)signal(number, SIG_DFL);
    (void)kill(getpid(), number);
    return NULL;
}

void interruption_begin(struct sim *sim, atomic_int *signal, void (*look)(struct sim *), void (*report)(void)) {
    pthread_t thread;
    sigset_t all, kept;
    the_sim = sim;
    told = signal;
    look_at = look;
    write_reports = report;
    owner = getpid();
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &kept); /* the thread inherits it: the program gets its signals */
    const bool watches = sem_init(&woken, 0, 0) == 0 && pthread_create(&thread, NULL, watch, NULL) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &kept, NULL);
    for (size_t i = 0; watches && i < COUNT; i++) {
        struct sigaction ours = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_RESTART};
        if (sigaction(ending[i], NULL, &earlier[i]) != 0 || earlier[i].sa_handler == SIG_IGN) {
            continue;
        }
        const bool handled = earlier[i].sa_handler != SIG_DFL;
        if (handled) {
            ours.sa_sigaction = end_launch_and_pass_on;
            ours.sa_flags |= earlier[i].sa_flags;
            ours.sa_mask = earlier[i].sa_mask;
        }
        if (!handled || ending[i] == SIGINT || ending[i] == SIGTERM) {
            (void)sigaction(ending[i], &ours, NULL);
        }
    }
}
