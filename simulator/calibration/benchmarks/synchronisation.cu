/* The cost of synchronisation inside a CTA: mbarriers, named barriers and fences, for one thread or all. */
#include "harness.cuh"

#define TURNS 64

/* Thread 0 of warp 0 and of warp 1 hand a turn back and forth through two mbarriers. */
static __global__ void ping_pong_kernel(uint64_t *span) {
    __shared__ uint64_t words[2];
    struct mbarrier ping = {cvta_to_shared(&words[0])}, pong = {cvta_to_shared(&words[1])};
    if (threadIdx.x == 0) {
        mbarrier_init(ping, 1);
        mbarrier_init(pong, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    uint64_t start = clock64_now();
    if (threadIdx.x == 0) {
        for (uint32_t turn = 0; turn < TURNS; turn++) {
            mbarrier_arrive(ping);
            wait_parity(pong, turn & 1);
        }
        note_span(span, start, clock64_now());
    } else if (threadIdx.x == WARP_LANES) {
        for (uint32_t turn = 0; turn < TURNS; turn++) {
            wait_parity(ping, turn & 1);
            mbarrier_arrive(pong);
        }
    }
}

/* One thread completes a phase and sees that it is complete. */
static __global__ void arrive_wait_kernel(uint64_t *span) {
    __shared__ uint64_t word;
    struct mbarrier barrier = {cvta_to_shared(&word)};
    mbarrier_init(barrier, 1);
    uint64_t start = clock64_now();
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        mbarrier_arrive(barrier);
        wait_parity(barrier, turn & 1);
    }
    note_span(span, start, clock64_now());
}

/* Waits for phases that completed long ago: the cost of the test itself. */
static __global__ void complete_wait_kernel(uint64_t *span) {
    __shared__ uint64_t word;
    struct mbarrier barrier = {cvta_to_shared(&word)};
    mbarrier_init(barrier, 1);
    mbarrier_arrive(barrier);
    wait_parity(barrier, 0);
    uint64_t start = clock64_now();
#pragma unroll 1
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        wait_parity(barrier, 0);
    }
    note_span(span, start, clock64_now());
}

static __global__ void named_barrier_kernel(uint64_t *span) {
    uint64_t start = 0;
    for (int lap = 0; lap < 2; lap++) {
        __syncthreads();
        start = clock64_now();
#pragma unroll 1
        for (uint32_t turn = 0; turn < TURNS; turn++) {
            bar_sync(1, blockDim.x);
        }
    }
    note_span(span, start, clock64_now());
}

enum fence {
    FENCE_PROXY_ASYNC,
    FENCE_PROXY_ASYNC_SHARED,
    FENCE_CTA,
    FENCE_CLUSTER,
    FENCE_GPU,
    WARP_SYNC,
    FENCES
};
static const char *const fence_names[] = {"fence.proxy.async", "fence.proxy.async.shared::cta",
                                          "fence.acq_rel.cta", "fence.acq_rel.cluster",
                                          "fence.acq_rel.gpu", "bar.warp.sync"};

template <enum fence kind> static __global__ void fence_kernel(uint64_t *span) {
    __shared__ uint32_t words[WARP_LANES * 32];
    uint64_t start = clock64_now();
#pragma unroll 1
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(cvta_to_shared(&words[threadIdx.x])), "r"(turn)
                     : "memory");
        switch (kind) {
        case FENCE_PROXY_ASYNC:
            asm volatile("fence.proxy.async;" ::: "memory");
            break;
        case FENCE_PROXY_ASYNC_SHARED:
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
            break;
        case FENCE_CTA:
            asm volatile("fence.acq_rel.cta;" ::: "memory");
            break;
        case FENCE_CLUSTER:
            asm volatile("fence.acq_rel.cluster;" ::: "memory");
            break;
        case FENCE_GPU:
            asm volatile("fence.acq_rel.gpu;" ::: "memory");
            break;
        default:
            asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
            break;
        }
    }
    note_span(span, start, clock64_now());
}

static void measure(const char *name, const void *kernel, int threads, const char *parameters) {
    uint64_t *span = results(2);
    void *arguments[] = {&span};
    report(name, parameters, measured_span(kernel, {1, threads, 1, 0}, arguments, span) / TURNS, "cycles");
}

template <enum fence kind> static void measure_fence(void) {
    char parameters[96];
    for (int threads = WARP_LANES; threads <= 256; threads *= 8) {
        snprintf(parameters, sizeof parameters, "\"fence\": \"%s\", \"threads\": %d", fence_names[kind],
                 threads);
        measure("fence_after_store_cycles", (const void *)fence_kernel<kind>, threads, parameters);
    }
}

void synchronisation(void) {
    measure("mbarrier_round_trip_cycles", (const void *)ping_pong_kernel, 2 * WARP_LANES, "");
    measure("mbarrier_arrive_wait_cycles", (const void *)arrive_wait_kernel, 1, "");
    measure("mbarrier_complete_wait_cycles", (const void *)complete_wait_kernel, 1, "");
    for (int threads = 32; threads <= 1024; threads *= 2) {
        char parameters[32];
        snprintf(parameters, sizeof parameters, "\"threads\": %d", threads);
        measure("named_barrier_cycles", (const void *)named_barrier_kernel, threads, parameters);
    }
    measure_fence<FENCE_PROXY_ASYNC>();
    measure_fence<FENCE_PROXY_ASYNC_SHARED>();
    measure_fence<FENCE_CTA>();
    measure_fence<FENCE_CLUSTER>();
    measure_fence<FENCE_GPU>();
    measure_fence<WARP_SYNC>();
}
