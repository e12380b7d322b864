/* What the commands of ptxsim share. */
#ifndef SIM_CLI_H
#define SIM_CLI_H

#include <stddef.h>

enum {
    EXIT_NOT_RUN = 4,       /* nothing was run, or not to its end */
    EXIT_PROGRAM_FAILED = 5 /* no error was found, and the program that was run says that it failed */
};

/* Says what is wrong; EXIT_NOT_RUN. */
int cli_fail(const char *what, const char *detail);
/* A file's bytes and a final 0, to be freed.  NULL: errno says why. */
char *cli_read_file(const char *name, size_t *bytes);
/* `ptxsim run [OPTION...] -- PROGRAM [ARGUMENT...]`; argv[0] is "run". */
int cli_run(int argc, char **argv);

/* What a program's file says of its CUDA runtime (cli/elf.c). */
enum cli_linkage {
    LINKED_OTHER,   /* no CUDA to be seen: a script, or a program that loads libraries later */
    LINKED_SHARED,  /* with libcudart.so or libcuda.so */
    LINKED_STATIC,  /* kernels, and a CUDA runtime of its own */
    LINKED_WITH_US, /* with the simulator's own */
};
enum cli_linkage cli_linkage_of(const char *path);

#endif
