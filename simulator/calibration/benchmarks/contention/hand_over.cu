/* The cost of arrivals and fences of cluster or GPU scope while bulk copies are in flight, executed by the
 * copying warp or by other warps. Also how many clusters a chip holds at once. */
#include "harness.cuh"

#define TURNS       256
#define RING_COPIES 512
#define RING_BYTES  (128 * 1024)
#define SLOT_BYTES  8192
#define MAX_SLOTS   (RING_BYTES / SLOT_BYTES)
#define FAR_BYTES   ((size_t)1 << 30)  /* comes from HBM: nearly every byte is read once */
#define NEAR_BYTES  ((size_t)16 << 20) /* stays in L2 */
#define HOLD        100000             /* cycles: longer than any launch takes to start */
#define LARGE       (200 * 1024)       /* bytes of shared memory that leave room for one CTA an SM */
#define MAX_CLUSTER 8                  /* HW: the portable size */

enum order { ARRIVE_CTA, ARRIVE_CLUSTER, FENCE_CTA, FENCE_GPU, WAIT_CLUSTER, ORDERS };
static const char *const order_name[ORDERS] = {"mbarrier.arrive.release.cta", "mbarrier.arrive.release.cluster",
                                               "fence.acq_rel.cta", "fence.acq_rel.gpu",
                                               "mbarrier.try_wait.acquire.cluster"};

static __device__ __forceinline__ void hand_over_once(enum order order, uint32_t barrier, uint32_t own) {
    switch (order) {
    case ARRIVE_CTA:
        asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
        break;
    case ARRIVE_CLUSTER:
        asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(own) : "memory");
        break;
    case FENCE_CTA:
        asm volatile("fence.acq_rel.cta;" ::: "memory");
        break;
    case FENCE_GPU:
        asm volatile("fence.acq_rel.gpu;" ::: "memory");
        break;
    default:
        asm volatile(
            "{.reg .pred done; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], 1;}" ::"r"(
                barrier)
            : "memory");
    }
}

struct ring {
    /* slots: copies in flight; in_ring: the copying thread itself arrives or fences after each copy */
    uint32_t slots, in_ring;
    uint64_t source_bytes; /* a power of two */
};

/* Warp 0 keeps a ring of copies in flight until the other warps have had their turns. With in_ring there are no
 * others: it makes RING_COPIES copies and executes the arrival or fence after each. */
template <enum order order>
static __global__ void hand_over_kernel(uint64_t *span, const unsigned char *source, struct ring ring) {
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ uint64_t full_words[MAX_SLOTS], word;
    __shared__ uint32_t ended;
    uint32_t full = cvta_to_shared(full_words), barrier = cvta_to_shared(&word);
    uint32_t own = mapa_shared_cluster(barrier, 0), others = blockDim.x / WARP_LANES - 1;
    if (threadIdx.x == 0) {
        for (uint32_t slot = 0; slot < MAX_SLOTS; slot++) {
            mbarrier_init({full + slot * 8}, 1);
        }
        mbarrier_init({barrier}, 1 << 19); /* more than will arrive: no phase completes */
        fence_mbarrier_init();
        ended = 0;
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        uint64_t at = (uint64_t)blockIdx.x * SLOT_BYTES, step = (uint64_t)gridDim.x * SLOT_BYTES;
        uint32_t slot = 0, parity = 1, asked = 0, seen = 0;
        uint64_t start = clock64_now();
        while (ring.in_ring ? asked < RING_COPIES : *(volatile uint32_t *)&ended < others) {
            if (asked >= ring.slots && ring.slots > 0) {
                wait_parity({full + slot * 8}, parity);
                seen++;
                if (ring.in_ring) {
                    hand_over_once(order, barrier, own);
                }
            }
            if (ring.slots > 0) {
                mbarrier_arrive_expect_tx({full + slot * 8}, SLOT_BYTES);
                cp_async_bulk(cvta_to_shared(memory) + slot * SLOT_BYTES, source + at, SLOT_BYTES,
                              {full + slot * 8});
                at = (at + step) & (ring.source_bytes - 1);
                asked++;
                slot = slot + 1 == ring.slots ? 0 : slot + 1;
                parity ^= slot == 0;
            }
        }
        if (ring.in_ring && blockIdx.x == 0) { /* one CTA only: the SMs' clocks differ */
            note_span(span, start, clock64_now());
        }
        /* waits for the copies still in flight: none may outlive its CTA */
        for (; seen < asked; seen++) {
            wait_parity({full + slot * 8}, parity);
            slot = slot + 1 == ring.slots ? 0 : slot + 1;
            parity ^= slot == 0;
        }
    } else if (threadIdx.x % WARP_LANES == 0) {
        uint64_t settle = clock64_now(); /* waits until the ring is full */
        while (clock64_now() - settle < 4000) {
        }
        uint64_t start = clock64_now();
#pragma unroll 1
        for (uint32_t turn = 0; turn < TURNS; turn++) {
            hand_over_once(order, barrier, own);
        }
        uint64_t end = clock64_now();
        if (blockIdx.x == 0) {
            note_span(span, start, end);
        }
        atomicAdd(&ended, 1u);
    }
}

static unsigned char *far_memory(void) {
    static unsigned char *bytes;
    if (bytes == NULL) {
        check("cudaMalloc", cudaMalloc((void **)&bytes, FAR_BYTES));
        check("cudaMemset", cudaMemset(bytes, 0, FAR_BYTES));
    }
    return bytes;
}

template <enum order order> static void measure_order(int ctas, uint32_t slots, int warps, bool near) {
    uint64_t *span = results(2);
    unsigned char *bytes = far_memory();
    struct ring ring = {slots, warps == 0, near ? NEAR_BYTES : FAR_BYTES};
    void *arguments[] = {&span, &bytes, &ring};
    struct shape shape = {ctas, WARP_LANES * (1 + warps), 1, RING_BYTES};
    double cycles = measured_span((const void *)hand_over_kernel<order>, shape, arguments, span);
    reportf(warps == 0 ? "ring_hand_over_cycles" : "hand_over_cycles",
            cycles / (warps == 0 ? RING_COPIES : TURNS), "cycles",
            "\"order\": \"%s\", \"in_flight_bytes\": %u, \"warps\": %d, \"ctas\": %d, \"memory\": \"%s\"",
            order_name[order], slots * SLOT_BYTES, warps, ctas, near ? "L2" : "HBM");
}

template <enum order order> static void measure_orders(void) {
    for (uint32_t slots = 0; slots <= MAX_SLOTS; slots = slots == 0 ? 1 : slots * 4) {
        measure_order<order>(1, slots, 1, true);
        if (slots > 0) {
            measure_order<order>(sm_count(), slots, 1, true);
            measure_order<order>(sm_count(), slots, 1, false);
            measure_order<order>(sm_count(), slots, 8, true);
            measure_order<order>(1, slots, 0, true);
            measure_order<order>(sm_count(), slots, 0, true);
            measure_order<order>(sm_count(), slots, 0, false);
        }
    }
}

/* ---- clusters that are resident together ---- */

static __global__ void resident_kernel(uint64_t *spans, int cluster) {
    uint64_t start = globaltimer_now(), clock = clock64_now();
    while (clock64_now() - clock < HOLD) {
    }
    barrier_cluster_arrive_release();
    barrier_cluster_wait_acquire();
    if (threadIdx.x == 0 && blockIdx.x % cluster == 0) {
        spans[blockIdx.x / cluster * 2] = start;
        spans[blockIdx.x / cluster * 2 + 1] = globaltimer_now();
    }
}

static void measure_resident(int cluster) {
    static uint64_t spans[2 * 256];
    int clusters = sm_count() / cluster * 2;
    uint64_t *words = results(2 * clusters), first_end = UINT64_MAX;
    void *arguments[] = {&words, &cluster};
    launch((const void *)resident_kernel, {clusters * cluster, WARP_LANES, cluster, LARGE}, arguments);
    check("cudaMemcpy", cudaMemcpy(spans, words, (size_t)clusters * 2 * sizeof *spans, cudaMemcpyDeviceToHost));
    int together = 0;
    for (int i = 0; i < clusters; i++) {
        first_end = spans[2 * i + 1] < first_end ? spans[2 * i + 1] : first_end;
    }
    for (int i = 0; i < clusters; i++) {
        together += spans[2 * i] < first_end;
    }
    reportf("clusters_at_once", together, "clusters", "\"cluster\": %d", cluster);
}

void hand_over(void) {
    for (int cluster = 2; cluster <= MAX_CLUSTER; cluster *= 2) {
        measure_resident(cluster);
    }
    measure_orders<ARRIVE_CTA>();
    measure_orders<ARRIVE_CLUSTER>();
    measure_orders<FENCE_CTA>();
    measure_orders<FENCE_GPU>();
    measure_orders<WAIT_CLUSTER>();
}
