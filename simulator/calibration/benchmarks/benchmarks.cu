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
} groups[] = {{"alu", alu},
              {"shared_memory", shared_memory},
              {"tensor", tensor},
              {"synchronisation", synchronisation},
              {"copies", copies},
              {"copy_rates", copy_rates},
              {"clusters", clusters},
              {"launches", launches},
              {"overlap", overlap},
              {"starts", starts},
              {"traffic", traffic},
              {"hand_over", hand_over},
              {"past_end", past_end},
              {"pages", pages},
              {"last_stores", last_stores},
              {"prefetches", prefetches},
              {"fresh", fresh},
              {"behind_stores", behind_stores},
              {"rings", rings},
              {"words", words},
              {"helpers", helpers},
              {"first_stage", first_stage},
              {"beside_mma", beside_mma},
              {"cold", cold},
              {"warp_mma", warp_mma},
              {"producers", producers},
              {"answers", answers},
              {"cluster_fences", cluster_fences},
              {"fenced_stores", fenced_stores},
              {"touched_lines", touched_lines},
              {"dependents", dependents},
              {"left_units", left_units},
              {"cluster_rings", cluster_rings},
              {"rounds", rounds},
              {"late_warps", late_warps},
              {"stores_beside_mma", stores_beside_mma}};

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
