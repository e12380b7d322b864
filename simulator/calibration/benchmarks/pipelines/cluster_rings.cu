/* Cycles a stage of a ring with few stages whose copies a cluster's CTAs share. One thread copies; the warps of
 * every CTA read nothing and release the stage to all CTAs at once, with CTA-scope arrivals and so without a
 * fence. */
#include "harness.cuh"

#define COPIES      128
#define MAX_SLOTS   4
#define MAX_CLUSTER 4
#define MAX_BYTES   32768
#define NEAR_BYTES  ((size_t)8 << 20) /* stays in L2 */
#define CTAS        128

struct cluster_ring {
    const unsigned char *source;
    uint32_t bytes, slots, cluster; /* bytes: those of a stage */
    /* each CTA copies a part of the stage to all CTAs; otherwise the whole stage for itself */
    bool multicast;
};

static __global__ void cluster_ring_kernel(uint64_t *span, struct cluster_ring ring) {
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ uint64_t full_words[MAX_SLOTS], empty_words[MAX_SLOTS];
    uint32_t full = cvta_to_shared(full_words), empty = cvta_to_shared(empty_words);
    if (threadIdx.x == 0) {
        for (uint32_t slot = 0; slot < ring.slots; slot++) {
            mbarrier_init({full + slot * 8}, 1);
            mbarrier_init({empty + slot * 8}, (blockDim.x / WARP_LANES - 1) * ring.cluster);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    barrier_cluster_arrive_release();
    barrier_cluster_wait_acquire();
    uint32_t slot = 0, parity = 0;
    if (threadIdx.x == 0) {
        uint32_t shared_by = ring.multicast ? ring.cluster : 1;
        uint32_t rank = blockIdx.x % shared_by, part = ring.bytes / shared_by;
        const unsigned char *from = ring.source + (size_t)blockIdx.x / shared_by * ring.bytes + rank * part;
        uint32_t step = gridDim.x / shared_by * ring.bytes, to = cvta_to_shared(memory) + rank * part, at = 0;
        uint64_t start = clock64_now();
#pragma unroll 1
        for (uint32_t i = 0; i < COPIES; i++) {
            struct mbarrier barrier = {full + slot * 8};
            wait_parity({empty + slot * 8}, parity ^ 1);
            mbarrier_arrive_expect_tx(barrier, ring.bytes);
            if (ring.multicast) {
                asm volatile(
                    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                    "[%0], [%1], %2, [%3], %4;" ::"r"(to + slot * ring.bytes),
                    "l"(from + at), "r"(part), "r"(barrier.address), "h"((uint16_t)((1 << ring.cluster) - 1))
                    : "memory");
            } else {
                cp_async_bulk(to + slot * ring.bytes, from + at, part, barrier);
            }
            at = (at + step) & (NEAR_BYTES - 1);
            slot = slot + 1 == ring.slots ? 0 : slot + 1;
            parity ^= slot == 0;
        }
        if (blockIdx.x == 0) {
            note_span(span, start, clock64_now());
        }
    } else if (threadIdx.x >= WARP_LANES) {
        uint32_t lane = threadIdx.x % WARP_LANES, other = mapa_shared_cluster(empty, lane % ring.cluster);
#pragma unroll 1
        for (uint32_t i = 0; i < COPIES; i++) {
            wait_parity({full + slot * 8}, parity);
            if (lane < ring.cluster) {
                asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(other + slot * 8) : "memory");
            }
            slot = slot + 1 == ring.slots ? 0 : slot + 1;
            parity ^= slot == 0;
        }
    }
    barrier_cluster_arrive_release();
    barrier_cluster_wait_acquire();
}

static void measure_ring(struct cluster_ring ring, int warps, int ctas) {
    uint64_t *span = results(2);
    void *arguments[] = {&span, &ring};
    struct shape shape = {ctas, WARP_LANES * (1 + warps), (int)ring.cluster, MAX_SLOTS * MAX_BYTES};
    double cycles = measured_span((const void *)cluster_ring_kernel, shape, arguments, span);
    reportf("cluster_ring_cycles", cycles / COPIES, "cycles",
            "\"cluster\": %u, \"multicast\": %d, \"bytes\": %u, \"slots\": %u, \"warps\": %d, \"ctas\": %d",
            ring.cluster, ring.multicast, ring.bytes, ring.slots, warps, ctas);
}

void cluster_rings(void) {
    unsigned char *bytes = zeroed(NEAR_BYTES + CTAS * MAX_BYTES);
    for (uint32_t cluster = 1; cluster <= MAX_CLUSTER; cluster *= 2) {
        for (int multicast = 0; multicast <= (cluster > 1); multicast++) {
            for (uint32_t stage = 4096; stage <= MAX_BYTES; stage *= 8) {
                struct cluster_ring ring = {bytes, stage, 1, cluster, multicast != 0};
                for (; ring.slots <= MAX_SLOTS; ring.slots *= 2) {
                    measure_ring(ring, 1, CTAS);
                    measure_ring(ring, 1, (int)cluster);
                }
                ring.slots = 2;
                measure_ring(ring, 8, CTAS);
            }
        }
    }
    check("cudaFree", cudaFree(bytes));
}
