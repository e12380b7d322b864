/* A dependent launch: the time from the previous kernel's trigger until the launch's CTAs begin, and from the
 * previous kernel's end until griddepcontrol.wait returns. Both are read from the clock of the SM that ran the
 * previous kernel. */
#include "harness.cuh"

/* cycles until the trigger: longer than the host needs to enqueue the next launch */
#define BEFORE_CYCLES 20000
#define MAX_SMS       256
#define MAX_VECTORS   16 /* the most vectors that a lane stores */

struct moments { /* readings of an SM's clock; 0: not reached */
    uint64_t triggered, ended, began, released;
};

/* The previous kernel. Its lanes store `vectors` vectors before its last word. */
static __global__ void first_kernel(struct moments *moments, uint4 *out, uint32_t after, uint32_t vectors) {
    spin(BEFORE_CYCLES);
    uint64_t triggered = clock64_now();
    griddepcontrol_launch_dependents();
    spin(after);
    for (uint32_t i = 0; i < vectors; i++) {
        out[i * WARP_LANES + threadIdx.x] = make_uint4(i, i, i, i);
    }
    if (threadIdx.x == 0) {
        moments[sm_now()].triggered = triggered;
        moments[sm_now()].ended = clock64_now();
    }
}

static __global__ void next_kernel(struct moments *moments) {
    uint64_t began = clock64_now();
    griddepcontrol_wait();
    if (threadIdx.x == 0) {
        moments[sm_now()].began = began;
        moments[sm_now()].released = clock64_now();
    }
}

/* Sets the cluster attribute for clusters of one CTA too: they start differently from CTAs without it. */
static void enqueue_clusters(const void *kernel, int ctas, bool dependent, int cluster, int shared_bytes,
                             void **arguments) {
    cudaLaunchAttribute attributes[2];
    attributes[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[0].val.programmaticStreamSerializationAllowed = dependent;
    attributes[1].id = cudaLaunchAttributeClusterDimension;
    attributes[1].val.clusterDim.x = (unsigned)cluster;
    attributes[1].val.clusterDim.y = attributes[1].val.clusterDim.z = 1;
    cudaLaunchConfig_t config;
    memset(&config, 0, sizeof config);
    config.gridDim = dim3((unsigned)ctas, 1, 1);
    config.blockDim = dim3(WARP_LANES, 1, 1);
    config.dynamicSmemBytes = (size_t)shared_bytes;
    config.attrs = attributes;
    config.numAttrs = 2;
    check("launch", cudaLaunchKernelExC(&config, kernel, arguments));
}

static void measure_dependent(struct moments *moments, uint4 *out, int cluster, int shared_bytes,
                              uint32_t after, uint32_t vectors) {
    double start[LAUNCHES], release[LAUNCHES];
    void *first[] = {&moments, &out, &after, &vectors}, *next[] = {&moments};
    check("cudaFuncSetAttribute",
          cudaFuncSetAttribute((const void *)next_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 204800));
    for (int i = -WARM_UP_LAUNCHES; i < LAUNCHES; i++) {
        struct moments of[MAX_SMS];
        check("cudaMemset", cudaMemset(moments, 0, sizeof of));
        enqueue_clusters((const void *)first_kernel, 1, false, 1, 0, first);
        enqueue_clusters((const void *)next_kernel, sm_count(), true, cluster, shared_bytes, next);
        check("cudaMemcpy", cudaMemcpy(of, moments, sizeof of, cudaMemcpyDeviceToHost));
        for (int sm = 0; i >= 0 && sm < MAX_SMS; sm++) {
            if (of[sm].triggered != 0) {
                start[i] = (double)(int64_t)(of[sm].began - of[sm].triggered);
                release[i] = (double)(int64_t)(of[sm].released - of[sm].ended);
            }
        }
    }
    char parameters[128], stores[32] = "";
    if (vectors != 0) {
        snprintf(stores, sizeof stores, ", \"first_stores\": %u", vectors);
    }
    snprintf(parameters, sizeof parameters, "\"cluster\": %d, \"shared_bytes\": %d, \"first_goes_on\": %u%s",
             cluster, shared_bytes, after, stores);
    if (vectors == 0) {
        report("dependent_start_cycles", parameters, median(start, LAUNCHES), "cycles");
    }
    report("dependent_release_cycles", parameters, median(release, LAUNCHES), "cycles");
}

void dependents(void) {
    struct moments *moments;
    uint4 *out;
    check("cudaMalloc", cudaMalloc((void **)&moments, MAX_SMS * sizeof *moments));
    check("cudaMalloc", cudaMalloc((void **)&out, MAX_VECTORS * WARP_LANES * sizeof *out));
    for (int cluster = 1; cluster <= 2; cluster++) {
        for (int shared_bytes = 0; shared_bytes <= 204800; shared_bytes += 204800) {
            for (uint32_t after = 0; after <= 10000; after = after == 0 ? 1000 : after * 10) {
                measure_dependent(moments, out, cluster, shared_bytes, after, 0);
            }
        }
        for (uint32_t vectors = 1; vectors <= MAX_VECTORS; vectors *= 4) {
            measure_dependent(moments, out, cluster, 0, 10000, vectors);
        }
    }
    check("cudaFree", cudaFree(out));
    check("cudaFree", cudaFree(moments));
}
