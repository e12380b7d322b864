/* Barriers and clusters: what waits see, counts, multicast, distributed shared memory, remote arrivals. */
#include "features.cuh"

#define BARRIER_AT (SHARED_BYTES / 2)

static __device__ uint32_t test_wait(struct mbarrier barrier, uint32_t parity) {
    uint32_t done;
    asm volatile("{\n\t.reg .pred p;\n\tmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                 "selp.u32 %0, 1, 0, p;\n\t}"
                 : "=r"(done)
                 : "r"(barrier.address), "r"(parity)
                 : "memory");
    return done;
}

static __device__ uint32_t cluster_rank(void) {
    uint32_t rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

static __device__ void cluster_sync(void) {
    asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}

static __device__ uint32_t mapa(uint32_t address, uint32_t rank) {
    uint32_t mapped;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
    return mapped;
}

/* One thread: the result of test_wait and the number of pending arrivals after each step. */
static __global__ void mbarrier_steps(struct buffers b) {
    unsigned char *generic;
    struct mbarrier barrier = {fresh_shared(&generic) + BARRIER_AT};
    if (threadIdx.x != 0) {
        return;
    }
    uint32_t at = 0;
    auto note = [&](void) {
        b.out[at++] = 2 + test_wait(barrier, 0);
        b.out[at++] = 2 + test_wait(barrier, 1);
    };
    auto count = [&](uint64_t state) {
        uint32_t pending;
        asm("mbarrier.pending_count.b64 %0, %1;" : "=r"(pending) : "l"(state));
        b.out[at++] = 100 + pending;
    };
    uint64_t state;
    mbarrier_init(barrier, 5);
    fence_mbarrier_init();
    note();
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(barrier.address) : "memory");
    count(state);
    note();
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1], 3;"
                 : "=l"(state)
                 : "r"(barrier.address)
                 : "memory");
    count(state);
    note();
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], 64;" ::"r"(barrier.address) : "memory");
    mbarrier_arrive(barrier); /* no arrivals pending, but bytes */
    note();
    cp_async_bulk(barrier.address - 1024, b.in, 64, barrier);
    wait_for(barrier, 0);
    note();
    asm volatile("mbarrier.arrive_drop.shared::cta.b64 %0, [%1];"
                 : "=l"(state)
                 : "r"(barrier.address)
                 : "memory");
    count(state);
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1], 4;"
                 : "=l"(state)
                 : "r"(barrier.address)
                 : "memory");
    note(); /* complete: now four are expected */
    for (int i = 0; i < 4; i++) {
        asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];"
                     : "=l"(state)
                     : "r"(barrier.address)
                     : "memory");
        count(state);
        note();
    }
    asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier.address) : "memory");
}

/* CTA 0 copies to the CTAs of the mask; each CTA writes out its shared memory. */
static __global__ void multicast(struct buffers b, uint32_t mask) {
    unsigned char *generic;
    uint32_t shared = fresh_shared(&generic), rank = cluster_rank();
    struct mbarrier barrier = {shared + BARRIER_AT};
    if (threadIdx.x == 0) {
        mbarrier_init(barrier, 1);
        fence_mbarrier_init();
        if (mask >> rank & 1) {
            mbarrier_arrive_expect_tx(barrier, 2048);
        }
    }
    cluster_sync();
    if (rank == 0 && threadIdx.x == 0) {
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                     "[%0], [%1], 2048, [%2], %3;" ::"r"(shared + 512),
                     "l"(b.in + 64), "r"(barrier.address), "h"((uint16_t)mask)
                     : "memory");
    }
    if (mask >> rank & 1) {
        wait_for(barrier, 0);
    }
    cluster_sync();
    dump_shared(b.out + rank * 1024, generic, 1024);
}

/* Each CTA writes to its right neighbour, reads from its left, arrives on and sends to the one across. */
static __global__ void neighbours(struct buffers b) {
    unsigned char *generic;
    uint32_t shared = fresh_shared(&generic), rank = cluster_rank(), t = threadIdx.x;
    struct mbarrier barrier = {shared + BARRIER_AT}, sent = {shared + BARRIER_AT + 8};
    if (t == 0) {
        mbarrier_init(barrier, blockDim.x);
        mbarrier_init(sent, 1);
        fence_mbarrier_init();
        mbarrier_arrive_expect_tx(sent, 16 * blockDim.x + 512);
    }
    cluster_sync();
    asm volatile("st.shared::cluster.u32 [%0], %1;" ::"r"(mapa(shared + t * 4, (rank + 1) % 4)),
                 "r"(b.in[rank * 128 + t])
                 : "memory");
    asm volatile(
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(mapa(barrier.address, rank ^ 2))
        : "memory");
    asm volatile(
        "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
            mapa(shared + 4096 + t * 16, rank ^ 2)),
        "r"(t), "r"(rank), "r"(t * 3 + rank), "r"(b.in[t]), "r"(mapa(sent.address, rank ^ 2))
        : "memory");
    if (t == 0) {
        asm volatile(
            "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], 512, [%2];" ::
                "r"(mapa(shared + 8192, rank ^ 2)),
            "r"(shared + 16384), "r"(mapa(sent.address, rank ^ 2))
            : "memory");
    }
    uint32_t done;
    do {
        asm volatile(
            "{\n\t.reg .pred p;\n\tmbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], 0;\n\t"
            "selp.u32 %0, 1, 0, p;\n\t}"
            : "=r"(done)
            : "r"(barrier.address)
            : "memory");
    } while (!done);
    wait_for(sent, 0);
    cluster_sync();
    uint32_t left;
    asm volatile("ld.shared::cluster.u32 %0, [%1];"
                 : "=r"(left)
                 : "r"(mapa(shared + 4096 + t * 16, (rank + 3) % 4))
                 : "memory");
    cluster_sync();
    ((uint32_t *)generic)[1024 + 2048 + t] = left;
    dump_shared(b.out + rank * 4096, generic, 4096);
}

/* Named barriers between pairs of warps; reductions over a barrier. */
static __global__ void named_barriers(struct buffers b) {
    unsigned char *generic;
    (void)fresh_shared(&generic);
    volatile uint32_t *words = (volatile uint32_t *)generic;
    uint32_t t = threadIdx.x, warp = t / 32, popc, any, all;
    words[t] = b.in[t];
    if (warp % 2 == 0) {
        asm volatile("bar.arrive %0, 64;" ::"r"(1 + warp / 2) : "memory");
    } else {
        asm volatile("bar.sync %0, 64;" ::"r"(1 + warp / 2) : "memory");
        b.out[t] = words[t ^ 32];
    }
    __syncthreads();
    asm volatile("{\n\t.reg .pred p, q;\n\tsetp.ne.u32 p, %1, 0;\n\tbar.red.popc.u32 %0, 0, p;\n\t}"
                 : "=r"(popc)
                 : "r"(b.in[t] & 4));
    asm volatile("{\n\t.reg .pred p, q;\n\tsetp.ne.u32 p, %1, 0;\n\tbar.red.or.pred q, 0, p;\n\tselp.u32 %0, "
                 "7, 9, q;\n\t}"
                 : "=r"(any)
                 : "r"((uint32_t)(t == 77)));
    asm volatile("{\n\t.reg .pred p, q;\n\tsetp.ne.u32 p, %1, 0;\n\tbar.red.and.pred q, 0, p;\n\tselp.u32 %0, "
                 "7, 9, q;\n\t}"
                 : "=r"(all)
                 : "r"((uint32_t)(t != 77)));
    b.out[256 + t] = popc;
    b.out[512 + t] = any * 100 + all;
}

void barriers(void) {
    feature("mbarrier.steps", mbarrier_steps, 1, 32, 1);
    for (uint32_t mask : {1u, 3u, 11u, 15u}) {
        char name[32];
        snprintf(name, sizeof name, "multicast.%u", mask);
        feature(name, multicast, 4, 128, 4, mask);
    }
    feature("cluster.neighbours", neighbours, 4, 128, 4);
    feature("bar.named", named_barriers, 1, 128, 1);
}
