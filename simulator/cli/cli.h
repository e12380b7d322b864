/* Shared by the commands `ptxsim` and `ptxsim run`. */
#ifndef SIM_CLI_H
#define SIM_CLI_H

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

#include "run_status.h"

enum {
    EXIT_NOT_RUN = 4,        /* no kernel was run, or not to its end */
    EXIT_PROGRAM_FAILED = 5, /* the verdict is clean or review, but the program itself failed */
    EXIT_INTERRUPTED = 6     /* a signal ended the run before its end */
};

/* For the options of a command, X(name, argument, number): the numbers from BEFORE_OPTIONS + 1 on, the table.
 */
#define OPTION_NUMBER(name, argument, number) number,
#define OPTION_ENTRY(name, argument, number)  {name, argument##_argument, NULL, number},

/* Prints what is wrong; returns EXIT_NOT_RUN. */
int cli_fail(const char *what, const char *detail);
/* The bytes of a file and a final 0, to be freed by the caller.  NULL: errno says why. */
char *cli_read_file(const char *name, size_t *bytes);
/* A process at its limit of CPU time is killed without a word; after this, a signal comes a second earlier. */
void cli_warn_of_limit(void);
/* Adds the suppressions of a file; 0, or EXIT_NOT_RUN after a message. */
int cli_read_rules(struct sim *sim, const char *path);
/* `ptxsim run [OPTION...] -- PROGRAM [ARGUMENT...]`; argv[0] is "run". */
int cli_run(int argc, char **argv);
/* Before the program is forked: holds the signals that cli_wait takes, none of which may end ptxsim alone.  The
 * program gets back those held `before`. */
void cli_hold_signals(sigset_t *before);
/* Waits until the program ends, and returns what waitpid tells.  Passes signals on to the program.  After
 * `first` seconds (0: never), then ever more seldom, one line on stderr says how far the running launch has
 * come (cli/progress.c). */
int cli_wait(const struct run_status *status, pid_t child, double first);
/* Says that the run was interrupted, and in which launch if it still ran. */
void cli_print_interruption(const struct run_status *status);

/* How a program is linked with the CUDA runtime, from its file (cli/program_file.c). */
enum cli_linkage {
    LINKED_OTHER,   /* no CUDA visible: a script, or a program that loads libraries at run time */
    LINKED_SHARED,  /* with libcudart.so, libcuda.so or what stands in for them */
    LINKED_STATIC,  /* contains kernels and the static CUDA runtime */
    LINKED_WITH_US, /* with the simulator's runtime */
};
enum cli_linkage cli_linkage_of(const char *path);

#endif
