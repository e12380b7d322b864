/* Clusters: their barrier, distributed shared memory, and arrivals on another CTA's mbarrier. */
#include "harness.cuh"

#define TURNS       64
#define CHASE_STEPS 64
#define BLOCK_BYTES 65536 /* moved between two CTAs */
#define ROUNDS      8
#define PORTABLE    8 /* HW: the largest portable cluster (CUDA programming guide) */

static __device__ __forceinline__ uint32_t cluster_rank(void) {
    uint32_t rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

static __device__ __forceinline__ void cluster_sync(void) {
    barrier_cluster_arrive_release();
    barrier_cluster_wait_acquire();
}

static __global__ void barrier_kernel(uint64_t *span) {
    cluster_sync();
    uint64_t start = clock64_now();
#pragma unroll 1
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        cluster_sync();
    }
    if (blockIdx.x == 0) {
        note_span(span, start, clock64_now());
    }
}

/* A lane of CTA 0 follows a pointer in CTA 1 that points at itself. */
static __global__ void remote_chase_kernel(uint64_t *span) {
    __shared__ uint32_t word;
    uint32_t address = mapa_shared_cluster(cvta_to_shared(&word), 1);
    word = address;
    cluster_sync();
    if (blockIdx.x == 0) {
        uint64_t start = clock64_now();
#pragma unroll 1
        for (int i = 0; i < CHASE_STEPS; i++) {
            asm volatile("ld.shared::cluster.u32 %0, [%0];" : "+r"(address)::"memory");
        }
        span[2] = address;
        note_span(span, start, clock64_now());
    }
    cluster_sync();
}

/* Thread 0 of both CTAs hand a turn back and forth. */
static __global__ void remote_ping_pong_kernel(uint64_t *span) {
    __shared__ uint64_t word;
    struct mbarrier own = {cvta_to_shared(&word)};
    uint32_t rank = cluster_rank(), other = mapa_shared_cluster(own.address, rank ^ 1);
    mbarrier_init(own, 1);
    fence_mbarrier_init();
    cluster_sync();
    uint64_t start = clock64_now();
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        if (rank == 1) {
            wait_parity(own, turn & 1);
        }
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(other) : "memory");
        if (rank == 0) {
            wait_parity(own, turn & 1);
        }
    }
    if (rank == 0) {
        note_span(span, start, clock64_now());
    }
    cluster_sync();
}

/* All threads store 16 bytes at a time into the other CTA; both CTAs do, or CTA 0 alone. */
static __global__ void remote_store_kernel(uint64_t *span, int both) {
    extern __shared__ __align__(128) unsigned char memory[];
    uint32_t to = mapa_shared_cluster(cvta_to_shared(memory), cluster_rank() ^ 1);
    float four[4] = {1, 2, 3, (float)threadIdx.x};
    cluster_sync();
    uint64_t start = clock64_now();
    if (both != 0 || cluster_rank() == 0) {
#pragma unroll 1
        for (int round = 0; round < ROUNDS; round++) {
            for (uint32_t at = threadIdx.x * 16; at < BLOCK_BYTES; at += blockDim.x * 16) {
                st_shared_cluster_v4(to + at, four);
            }
        }
    }
    cluster_sync();
    if (cluster_rank() == 0) {
        note_span(span, start, clock64_now());
    }
}

/* One thread copies blocks into the other CTA's shared memory with the copy engine. */
static __global__ void remote_copy_kernel(uint64_t *span, uint32_t bytes, int both) {
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ uint64_t word;
    struct mbarrier own = {cvta_to_shared(&word)};
    uint32_t rank = cluster_rank();
    uint32_t to = mapa_shared_cluster(cvta_to_shared(memory) + BLOCK_BYTES, rank ^ 1);
    uint32_t signal = mapa_shared_cluster(own.address, rank ^ 1);
    mbarrier_init(own, 1);
    fence_mbarrier_init();
    cluster_sync();
    bool sends = both != 0 || rank == 0, receives = both != 0 || rank == 1;
    uint64_t start = clock64_now();
    for (uint32_t round = 0; round < ROUNDS; round++) {
        if (receives) {
            mbarrier_arrive_expect_tx(own, BLOCK_BYTES);
        }
        if (sends) {
            for (uint32_t at = 0; at < BLOCK_BYTES; at += bytes) {
                asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
                             "[%0], [%1], %2, [%3];" ::"r"(to + at),
                             "r"(cvta_to_shared(memory) + at), "r"(bytes), "r"(signal)
                             : "memory");
            }
        }
        if (receives) {
            wait_parity(own, round & 1);
        }
        cluster_sync();
    }
    if (rank == 0) {
        note_span(span, start, clock64_now());
    }
}

static double measure(const char *name, const void *kernel, struct shape shape, const char *parameters,
                      int extra, uint32_t bytes, double divisor, const char *unit, bool rate) {
    uint64_t *span = results(3);
    void *with_bytes[] = {&span, &bytes, &extra}, *without[] = {&span, &extra};
    double cycles = measured_span(kernel, shape, bytes > 0 ? with_bytes : without, span);
    report(name, parameters, rate ? divisor / cycles : cycles / divisor, unit);
    return cycles;
}

void clusters(void) {
    char parameters[96];
    for (int cluster = 1; cluster <= PORTABLE; cluster *= 2) {
        for (int threads = 32; threads <= 512; threads *= 4) {
            snprintf(parameters, sizeof parameters, "\"cluster\": %d, \"threads\": %d", cluster, threads);
            measure("cluster_barrier_cycles", (const void *)barrier_kernel, {cluster, threads, cluster, 0},
                    parameters, 0, 0, TURNS, "cycles", false);
        }
    }
    measure("remote_load_latency_cycles", (const void *)remote_chase_kernel, {2, 1, 2, 0}, "", 0, 0,
            CHASE_STEPS, "cycles", false);
    measure("remote_mbarrier_round_trip_cycles", (const void *)remote_ping_pong_kernel, {2, 1, 2, 0}, "", 0, 0,
            TURNS, "cycles", false);
    for (int both = 0; both < 2; both++) {
        for (int threads = 128; threads <= 512; threads *= 2) {
            snprintf(parameters, sizeof parameters, "\"both_ways\": %d, \"threads\": %d", both, threads);
            measure("remote_store_bytes_a_cycle", (const void *)remote_store_kernel,
                    {2, threads, 2, BLOCK_BYTES}, parameters, both, 0, (double)ROUNDS * BLOCK_BYTES,
                    "bytes a cycle", true);
        }
        for (uint32_t bytes = 1024; bytes <= 16384; bytes *= 4) {
            snprintf(parameters, sizeof parameters, "\"both_ways\": %d, \"bytes\": %u", both, bytes);
            measure("remote_copy_bytes_a_cycle", (const void *)remote_copy_kernel, {2, 1, 2, 2 * BLOCK_BYTES},
                    parameters, both, bytes, (double)ROUNDS * BLOCK_BYTES, "bytes a cycle", true);
        }
    }
}
