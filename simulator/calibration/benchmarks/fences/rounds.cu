/* GPU-scope fences by three warpgroups that begin some cycles apart: whether a fence that begins while others
 * are under way completes with them. On an idle chip and while every SM copies. */
#include "traffic.cuh"

#define TURNS     24
#define COUNTED   16  /* the last turns, which are timed */
#define SETTLE    100 /* cycles from a turn's barrier until the first fence begins */
#define GROUPS    3
#define TURN_BARS 1 /* named barrier of the warpgroups */

struct rounds_plan {
    struct ring_traffic traffic;
    uint4 *out; /* one vector for each lane */
    uint32_t apart;
};

/* spans: a warpgroup's cycles from its begin to the end of its fence, summed over the turns. */
template <bool stores> static __global__ void rounds_kernel(uint64_t *spans, struct rounds_plan plan) {
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
    uint32_t thread = threadIdx.x - WARP_LANES, group = thread / WARPGROUP_LANES;
    uint64_t all = 0;
    spin_until(clock64_now() + 4000); /* waits until the ring is full */
#pragma unroll 1
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        bar_sync(TURN_BARS, threads);
        spin_until(clock64_now() + SETTLE + group * plan.apart);
        if (stores) {
            plan.out[blockIdx.x * threads + thread] = make_uint4(turn, turn, turn, turn);
        }
        uint64_t begin = clock64_now();
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
        all += turn < TURNS - COUNTED ? 0 : clock64_now() - begin;
    }
    bar_sync(TURN_BARS, threads);
    if (blockIdx.x == 0 && thread % WARPGROUP_LANES == 0) {
        spans[group] = all;
    }
    if (thread == 0) {
        *(volatile uint32_t *)&over = 1;
    }
}

template <bool stores>
static void measure_rounds(struct rounds_plan plan, uint32_t slots, bool near, uint32_t apart) {
    uint64_t *spans = results(GROUPS);
    double cycles[GROUPS];
    plan.traffic.slots = slots;
    plan.traffic.bytes = near ? NEAR_BYTES : FAR_BYTES;
    plan.apart = apart;
    medians_of(1, GROUPS, cycles, [&] {
        void *arguments[] = {&spans, &plan};
        launch((const void *)rounds_kernel<stores>,
               {sm_count(), WARP_LANES + GROUPS * WARPGROUP_LANES, 1, MAX_SLOTS * SLOT_BYTES}, arguments);
    });
    for (int group = 0; group < GROUPS; group++) {
        reportf("fence_rounds_cycles", cycles[group] / COUNTED, "cycles",
                "\"stores\": %d, \"apart\": %u, \"warpgroup\": %d, \"in_flight_bytes\": %u, \"memory\": \"%s\"",
                stores, apart, group, slots * SLOT_BYTES,
                slots == 0 ? "none"
                : near     ? "L2"
                           : "HBM");
    }
}

template <bool stores> static void measure_memory(const struct rounds_plan &plan, uint32_t apart) {
    measure_rounds<stores>(plan, 0, true, apart);
    measure_rounds<stores>(plan, 4, true, apart);
    measure_rounds<stores>(plan, 4, false, apart);
}

void rounds(void) {
    unsigned char *source;
    uint4 *out;
    check("cudaMalloc", cudaMalloc((void **)&out, (size_t)sm_count() * GROUPS * WARPGROUP_LANES * sizeof *out));
    check("cudaMalloc", cudaMalloc((void **)&source, FAR_BYTES));
    check("cudaMemset", cudaMemset(source, 0, FAR_BYTES));
    static const uint32_t apart[] = {0, 100, 200, 400, 1000};
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++) {
        measure_memory<false>({{source, 0, 0}, out, 0}, apart[i]);
        measure_memory<true>({{source, 0, 0}, out, 0}, apart[i]);
    }
    check("cudaFree", cudaFree(out));
    check("cudaFree", cudaFree(source));
}
