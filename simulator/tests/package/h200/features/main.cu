#include "features.cuh"

#include <signal.h>
#include <unistd.h>

#define SECONDS_TO_START  60 /* the driver's start, with other programs' on the card */
#define SECONDS_A_FEATURE 10 /* a thousand times the slowest */
#define EXIT_FAILED       1
#define EXIT_NEVER_ENDED  3

static struct buffers made;
static const char *only;  /* a feature whose output is printed word by word */
static int first, number; /* the first feature to run, and the current one */
static FILE *words_file;
static const char *at_hand = "cudaMalloc";

void check(const char *what, cudaError_t error) {
    if (error != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
        exit(EXIT_FAILED);
    }
}

/* Calls only what a signal handler may call: the main thread waits inside the driver. */
static void never_ended(int signal) {
    (void)signal;
    static const char said[] = ": has not ended\n";
    ssize_t ignored = write(STDERR_FILENO, at_hand, strlen(at_hand));
    ignored = write(STDERR_FILENO, said, sizeof said - 1);
    (void)ignored;
    _exit(EXIT_NEVER_ENDED);
}

bool named(const char *name) {
    return only != NULL && strcmp(only, name) == 0;
}

struct buffers fresh_buffers(void) {
    if (made.out == NULL) {
        static uint32_t words[IN_WORDS];
        uint64_t state = 20261121;
        for (int i = 0; i < IN_WORDS; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            words[i] = (uint32_t)(state >> 32);
        }
        check("cudaMalloc", cudaMalloc((void **)&made.out, OUT_WORDS * 4));
        check("cudaMalloc", cudaMalloc((void **)&made.in, IN_WORDS * 4));
        check("cudaMemcpy", cudaMemcpy((void *)made.in, words, sizeof words, cudaMemcpyHostToDevice));
    }
    check("cudaMemset", cudaMemset(made.out, 0, OUT_WORDS * 4));
    return made;
}

static void launch(const char *name, const void *kernel, int ctas, int threads, int cluster, void **arguments) {
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = (unsigned)cluster;
    attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config;
    memset(&config, 0, sizeof config);
    config.gridDim = dim3((unsigned)ctas, 1, 1);
    config.blockDim = dim3((unsigned)threads, 1, 1);
    config.dynamicSmemBytes = SHARED_BYTES;
    config.attrs = &attribute;
    config.numAttrs = 1;
    check(name, cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
    check(name, cudaLaunchKernelExC(&config, kernel, arguments));
    check(name, cudaDeviceSynchronize());
}

void run(const char *name, const void *kernel, int ctas, int threads, int cluster, void **arguments) {
    static uint32_t words[OUT_WORDS];
    if (number++ < first || (only != NULL && strcmp(only, name) != 0)) {
        return;
    }
    at_hand = name;
    alarm(SECONDS_A_FEATURE);
    launch(name, kernel, ctas, threads, cluster, arguments);
    check(name, cudaMemcpy(words, made.out, sizeof words, cudaMemcpyDeviceToHost));
    if (words_file != NULL && fwrite(words, sizeof words, 1, words_file) + (size_t)fflush(words_file) != 1) {
        perror("the words");
        exit(EXIT_FAILED);
    }
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a */
    uint32_t used = 0;
    for (int i = 0; i < OUT_WORDS * 4; i++) {
        hash = (hash ^ ((unsigned char *)words)[i]) * 0x100000001b3u;
    }
    for (int i = 0; i < OUT_WORDS; i++) {
        used += words[i] != 0;
        if (only != NULL && words[i] != 0) {
            printf("%d %08x\n", i, words[i]);
        }
    }
    printf("%s %016llx %u\n", name, (unsigned long long)hash, used);
    fflush(stdout);
}

/* features [--from NUMBER] [--words FILE] [NAME]: all features, or those from a number on, or the one named. */
int main(int count, char **arguments) {
    int option = 1;
    for (; option + 1 < count && strncmp(arguments[option], "--", 2) == 0; option += 2) {
        if (strcmp(arguments[option], "--from") == 0) {
            first = atoi(arguments[option + 1]);
        } else if (strcmp(arguments[option], "--words") != 0 ||
                   (words_file = fopen(arguments[option + 1], "wb")) == NULL) {
            perror(arguments[option]);
            return EXIT_FAILED;
        }
    }
    only = option < count ? arguments[option] : NULL;
    signal(SIGALRM, never_ended);
    alarm(SECONDS_TO_START);
    copies();
    barriers();
    matrices();
    scalars();
    approximations();
    return words_file != NULL && fclose(words_file) != 0 ? EXIT_FAILED : 0;
}
