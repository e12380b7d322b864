/* Chooses the CPU backend's instruction set and number of threads, and describes the machine. */
#include "cpu_machine.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "../core/environment.h"

#define ISA_VARIABLE     "NVFP4_CPU_ISA"
#define THREADS_VARIABLE "OMP_NUM_THREADS"

enum { ISA_LIST_BYTES = 64, CPU_NAME_BYTES = 64 };

/* The fastest first. */
static const struct kernels *const instruction_sets[] = {
#ifdef NVFP4_HAVE_AMX
    &kernels_amx,
#endif
#ifdef NVFP4_HAVE_AVX512
    &kernels_avx512,
#endif
#ifdef NVFP4_HAVE_AVX2
    &kernels_avx2,
#endif
#ifdef NVFP4_HAVE_NEON
    &kernels_neon,
#endif
    &kernels_portable,
};
enum { INSTRUCTION_SETS = sizeof instruction_sets / sizeof *instruction_sets };

int32_t machine_kernels(int64_t rows, const struct kernels **chosen) {
    const char *wanted = environment(ISA_VARIABLE);
    if (wanted != NULL && wanted[0] == '\0') {
        wanted = NULL;
    }
    for (int i = 0; i < INSTRUCTION_SETS; i++) {
        if (wanted == NULL ? rows >= instruction_sets[i]->least_rows && instruction_sets[i]->supported()
                           : strcmp(wanted, instruction_sets[i]->name) == 0) {
            *chosen = instruction_sets[i];
            if (!instruction_sets[i]->supported()) {
                return set_message(CUSTOM_KERNEL_ERROR_UNAVAILABLE,
                                   ISA_VARIABLE " is '%s', which this machine cannot run", wanted);
            }
            return CUSTOM_KERNEL_OK;
        }
    }
    char built[ISA_LIST_BYTES] = "";
    for (int i = 0; i < INSTRUCTION_SETS; i++) {
        size_t used = strlen(built);
        (void)snprintf(built + used, sizeof built - used, "%s%s", i == 0 ? "" : ", ",
                       instruction_sets[i]->name);
    }
    return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                       ISA_VARIABLE " is '%.64s'; expected one of the instruction sets built in: %s", wanted,
                       built);
}

int64_t machine_threads(void) {
    const char *variable = environment(THREADS_VARIABLE);
    long threads = variable != NULL ? strtol(variable, NULL, 10) : 0;
    if (threads < 1) {
        cpu_set_t processors;
        threads = sched_getaffinity(0, sizeof processors, &processors) == 0 ? CPU_COUNT(&processors) : 1;
    }
    return threads < MACHINE_MOST_THREADS ? threads : MACHINE_MOST_THREADS;
}

/* ", " and the processor's name; "" if it has none.
 * HW: CPUID leaves 0x80000002 to 0x80000004 hold it, padded with blanks or zeros (AMD64 manual, volume 3). */
static void read_cpu_name(char name[static CPU_NAME_BYTES]) {
    name[0] = '\0';
#ifdef __x86_64__
    uint32_t words[3][4];
    char text[sizeof words + 1];
    for (uint32_t i = 0; i < 3; i++) {
        if (!__get_cpuid(0x80000002u + i, &words[i][0], &words[i][1], &words[i][2], &words[i][3])) {
            return;
        }
    }
    memcpy(text, words, sizeof words);
    text[sizeof words] = '\0';
    size_t start = strspn(text, " "), end = strlen(text);
    while (end > start && text[end - 1] == ' ') {
        end--;
    }
    if (end > start) {
        (void)snprintf(name, CPU_NAME_BYTES, ", %.*s", (int)(end - start), text + start);
    }
#endif
}

int machine_describe(char *detail, size_t detail_bytes) {
    const struct kernels *kernels;
    char cpu_name[CPU_NAME_BYTES];
    if (machine_kernels(INT64_MAX, &kernels) != CUSTOM_KERNEL_OK) {
        (void)snprintf(detail, detail_bytes, "%s", custom_kernel_message());
        return 0;
    }
    long long threads = machine_threads();
    read_cpu_name(cpu_name);
    (void)snprintf(detail, detail_bytes, "%s, %lld thread%s%s", kernels->detail, threads,
                   threads == 1 ? "" : "s", cpu_name);
    return 1;
}
