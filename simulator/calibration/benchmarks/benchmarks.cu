/* The program: runs the groups of benchmarks that are named, or all. */
#include "harness.cuh"

#include <signal.h>
#include <unistd.h>

#define MAX_SECONDS  170 /* ends the program if a kernel hangs */
#define EXIT_TIMEOUT 3

static void out_of_time(int signal) {
    (void)signal;
    static const char said[] = "out of time\n";
    ssize_t ignored = write(STDERR_FILENO, said, sizeof said - 1);
    (void)ignored;
    _exit(EXIT_TIMEOUT);
}

static const struct group {
    const char *name;
    void (*run)(void);
} groups[] = {{"alu", alu},           {"shared_memory", shared_memory},
              {"tensor", tensor},     {"synchronisation", synchronisation},
              {"copies", copies},     {"copy_rates", copy_rates},
              {"clusters", clusters}, {"launches", launches},
              {"overlap", overlap},   {"traffic", traffic}};

int main(int count, char **arguments) {
    signal(SIGALRM, out_of_time);
    alarm(MAX_SECONDS);
    for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
        bool chosen = count == 1;
        for (int i = 1; i < count; i++) {
            chosen = chosen || strcmp(arguments[i], groups[g].name) == 0;
        }
        if (chosen) {
            groups[g].run();
        }
    }
    return 0;
}
