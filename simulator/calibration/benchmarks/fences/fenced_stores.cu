/* GPU-scope fences by several warps at once, between their stores and a barrier, as when partial sums are left
 * for other CTAs; on an idle chip and while every SM copies. */
#include "traffic.cuh"

#define TURNS      32
#define MAX_WARPS  12
#define MAX_STORES 16
#define VECTOR     16 /* bytes a lane stores at a time */
#define KEPT       4  /* turns until the same lines are written again */
#define CTA_BYTES  (KEPT * MAX_STORES * MAX_WARPS * WARP_LANES * VECTOR)
#define TURN_BARS  1 /* named barrier of the warps that store */

struct fenced_plan {
    struct ring_traffic traffic;
    unsigned char *sums;
};

template <int stores> static __global__ void fenced_stores_kernel(uint64_t *span, struct fenced_plan plan) {
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ uint64_t full_words[MAX_SLOTS];
    __shared__ uint32_t over;
    uint32_t full = cvta_to_shared(full_words), threads = blockDim.x - WARP_LANES;
    if (threadIdx.x == 0) {
        for (uint32_t slot = 0; slot < MAX_SLOTS; slot++) {
            mbarrier_init({full + slot * 8}, 1);
        }
        fence_mbarrier_init();
        over = 0;
    }
    __syncthreads();
    if (threadIdx.x < WARP_LANES) {
        if (threadIdx.x == 0 && plan.traffic.slots > 0) {
            copy_meanwhile(plan.traffic, cvta_to_shared(memory), full, &over);
        }
        return;
    }
    uint32_t thread = threadIdx.x - WARP_LANES;
    spin(4000); /* waits until the ring is full */
    bar_sync(TURN_BARS, threads);
    uint64_t start = clock64_now();
#pragma unroll 1
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        uint4 *to =
            (uint4 *)(plan.sums + (size_t)blockIdx.x * CTA_BYTES) + turn % KEPT * stores * threads + thread;
#pragma unroll
        for (int i = 0; i < stores; i++) {
            to[i * threads] = make_uint4(turn, i, 0, 0);
        }
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
        bar_sync(TURN_BARS, threads);
    }
    if (thread == 0) {
        if (blockIdx.x == 0) {
            note_span(span, start, clock64_now());
        }
        *(volatile uint32_t *)&over = 1;
    }
}

template <int stores>
static void measure_fenced(const struct fenced_plan &memory, int warps, int ctas, uint32_t slots, bool near) {
    uint64_t *span = results(2);
    struct fenced_plan plan = memory;
    plan.traffic.slots = slots;
    plan.traffic.bytes = near ? NEAR_BYTES : FAR_BYTES;
    void *arguments[] = {&span, &plan};
    double cycles = measured_span((const void *)fenced_stores_kernel<stores>,
                                  {ctas, WARP_LANES * (1 + warps), 1, MAX_SLOTS * SLOT_BYTES}, arguments, span);
    reportf("fenced_stores_cycles", cycles / TURNS, "cycles",
            "\"stores\": %d, \"warps\": %d, \"ctas\": %d, \"in_flight_bytes\": %u, \"memory\": \"%s\"", stores,
            warps, ctas, slots * SLOT_BYTES,
            slots == 0 ? "none"
            : near     ? "L2"
                       : "HBM");
}

template <int stores> static void measure_warps(const struct fenced_plan &memory) {
    for (int warps = 1; warps <= MAX_WARPS; warps = warps == 1 ? 4 : warps + 4) {
        measure_fenced<stores>(memory, warps, 1, 0, true);
        measure_fenced<stores>(memory, warps, sm_count(), 0, true);
        measure_fenced<stores>(memory, warps, sm_count(), 4, true);
        measure_fenced<stores>(memory, warps, sm_count(), 4, false);
        measure_fenced<stores>(memory, warps, sm_count(), MAX_SLOTS, true);
    }
}

void fenced_stores(void) {
    struct fenced_plan memory;
    unsigned char *source;
    memset(&memory, 0, sizeof memory);
    check("cudaMalloc", cudaMalloc((void **)&source, FAR_BYTES));
    check("cudaMemset", cudaMemset(source, 0, FAR_BYTES));
    check("cudaMalloc", cudaMalloc((void **)&memory.sums, (size_t)sm_count() * CTA_BYTES));
    memory.traffic.source = source;
    measure_warps<0>(memory);
    measure_warps<1>(memory);
    measure_warps<4>(memory);
    measure_warps<MAX_STORES>(memory);
    check("cudaFree", cudaFree(source));
    check("cudaFree", cudaFree(memory.sums));
}
