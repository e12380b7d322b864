#include "features.cuh"

static struct buffers made;
static const char *only; /* a feature whose output is printed word by word */

static void check(const char *what, cudaError_t error) {
    if (error != cudaSuccess) {
        fprintf(stderr, "%s: %s\n", what, cudaGetErrorString(error));
        exit(1);
    }
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

void run(const char *name, const void *kernel, int ctas, int threads, int cluster, void **arguments) {
    static uint32_t words[OUT_WORDS];
    if (only != NULL && strcmp(only, name) != 0) {
        return;
    }
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
    check(name, cudaMemcpy(words, made.out, sizeof words, cudaMemcpyDeviceToHost));
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

int main(int count, char **arguments) {
    only = count > 1 ? arguments[1] : NULL;
    copies();
    barriers();
    matrices();
    scalars();
    return 0;
}
