/* Bytes a second of bulk copies into shared memory, by bytes in flight on an SM, source (L2 or HBM) and number
 * of SMs; the same for bulk stores; and multicast in a cluster. */
#include "harness.cuh"

#define RING_BYTES    (192 * 1024)
#define MAX_SLOTS     64
#define SOURCE_BYTES  ((size_t)2 << 30)  /* comes from HBM: every byte is read once */
#define L2_BYTES      ((size_t)16 << 20) /* stays in L2 */
#define COPIES_OF_CTA 512
#define COPIES_OF_ONE 2048 /* number of copies where one SM copies alone */

struct plan {
    uint32_t bytes, slots; /* bytes of a copy; copies in flight */
    uint32_t copies;       /* copies that a CTA makes */
    /* the copies start over after this many bytes: a power of two, to keep a division out of the loop */
    uint64_t source_bytes;
    /* CTAs of a cluster that receive each copy; each of them issues its part of it */
    uint32_t shared_by;
};

/* One thread keeps a ring of copies in flight. With multicast a slot is free when all CTAs of the team have
 * seen their copy; they arrive on each other's empty[slot]. */
static __global__ void load_kernel(uint64_t *span, const unsigned char *source, struct plan plan) {
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ uint64_t full_words[MAX_SLOTS], empty_words[MAX_SLOTS];
    uint32_t to = cvta_to_shared(memory), full = cvta_to_shared(full_words),
             empty = cvta_to_shared(empty_words);
    bool team_copies = plan.shared_by > 1;
    for (uint32_t slot = 0; slot < plan.slots; slot++) {
        mbarrier_init({full + slot * 8}, 1);
        mbarrier_init({empty + slot * 8}, plan.shared_by);
    }
    fence_mbarrier_init();
    if (team_copies) {
        barrier_cluster_arrive_release();
        barrier_cluster_wait_acquire();
    }
    uint32_t rank = blockIdx.x % plan.shared_by, part = plan.bytes / plan.shared_by;
    uint64_t at = blockIdx.x / plan.shared_by * plan.bytes, step = gridDim.x / plan.shared_by * plan.bytes;
    uint32_t slot = 0, parity = 1; /* the parity of the previous lap */
    uint64_t start = globaltimer_now();
    for (uint32_t i = 0; i < plan.copies + plan.slots; i++) {
        struct mbarrier barrier = {full + slot * 8};
        if (i >= plan.slots) {
            wait_parity(barrier, parity);
            for (uint32_t r = 0; team_copies && r < plan.shared_by; r++) {
                asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(
                                 mapa_shared_cluster(empty + slot * 8, r))
                             : "memory");
            }
        }
        if (i < plan.copies) {
            if (team_copies && i >= plan.slots) {
                wait_parity({empty + slot * 8}, parity);
            }
            mbarrier_arrive_expect_tx(barrier, plan.bytes);
            const unsigned char *from = source + at + rank * part;
            if (team_copies) {
                asm volatile(
                    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                    "[%0], [%1], %2, [%3], %4;" ::"r"(to + slot * plan.bytes + rank * part),
                    "l"(from), "r"(part), "r"(barrier.address), "h"((uint16_t)((1 << plan.shared_by) - 1))
                    : "memory");
            } else {
                cp_async_bulk(to + slot * plan.bytes, from, plan.bytes, barrier);
            }
            at = (at + step) & (plan.source_bytes - 1);
        }
        if (++slot == plan.slots) {
            slot = 0;
            parity ^= 1;
        }
    }
    note_span(span, start, globaltimer_now());
    if (team_copies) { /* a CTA must not exit before all arrivals on its shared memory */
        barrier_cluster_arrive_release();
        barrier_cluster_wait_acquire();
    }
}

static __global__ void store_kernel(uint64_t *span, unsigned char *target, struct plan plan) {
    extern __shared__ __align__(128) unsigned char memory[];
    uint32_t from = cvta_to_shared(memory), slot = 0;
    uint64_t start = globaltimer_now();
    uint64_t at = (uint64_t)blockIdx.x * plan.bytes, step = (uint64_t)gridDim.x * plan.bytes;
    for (uint32_t i = 0; i < plan.copies; i++) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(target + at),
                     "r"(from + slot * plan.bytes), "r"(plan.bytes)
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        asm volatile("cp.async.bulk.wait_group.read 3;" ::: "memory");
        at = (at + step) & (plan.source_bytes - 1);
        slot = slot + 1 == plan.slots ? 0 : slot + 1;
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    note_span(span, start, globaltimer_now());
}

static unsigned char *source(void) {
    static unsigned char *bytes;
    if (bytes == NULL) {
        check("cudaMalloc", cudaMalloc((void **)&bytes, SOURCE_BYTES));
        check("cudaMemset", cudaMemset(bytes, 0, SOURCE_BYTES));
    }
    return bytes;
}

static void measure(const char *name, const void *kernel, struct plan plan, int ctas, const char *where) {
    uint64_t *span = results(2);
    unsigned char *bytes = source();
    void *arguments[] = {&span, &bytes, &plan};
    struct shape shape = {ctas, 1, (int)plan.shared_by, RING_BYTES};
    double ns = measured_span(kernel, shape, arguments, span);
    reportf(name, (double)plan.bytes * plan.copies * ctas / ns, "delivered bytes a ns",
            "\"bytes\": %u, \"in_flight_bytes\": %u, \"ctas\": %d, \"multicast\": %u, \"memory\": \"%s\"",
            plan.bytes, plan.bytes * plan.slots, ctas, plan.shared_by, where);
}

void copy_rates(void) {
    int sms = sm_count();
    static const uint32_t in_flight[] = {4096, 8192, 16384, 32768, 65536, 98304, 131072, RING_BYTES};
    for (size_t f = 0; f < sizeof in_flight / sizeof *in_flight; f++) {
        for (uint32_t bytes = 1024; bytes <= 16384; bytes *= 2) {
            uint32_t slots = in_flight[f] / bytes;
            if (slots < 1 || slots > MAX_SLOTS) {
                continue;
            }
            struct plan far = {bytes, slots, COPIES_OF_CTA, SOURCE_BYTES, 1};
            struct plan near = {bytes, slots, COPIES_OF_CTA, L2_BYTES, 1};
            struct plan alone = {bytes, slots, COPIES_OF_ONE, L2_BYTES / 4, 1};
            measure("load_rate", (const void *)load_kernel, far, sms, "HBM");
            measure("load_rate", (const void *)load_kernel, near, sms, "L2");
            measure("load_rate", (const void *)load_kernel, alone, 1, "L2");
        }
    }
    for (uint32_t bytes = 2048; bytes <= 16384; bytes *= 2) {
        struct plan out = {bytes, 4, COPIES_OF_CTA, SOURCE_BYTES, 1},
                    out_near = {bytes, 4, COPIES_OF_CTA, L2_BYTES, 1};
        measure("store_rate", (const void *)store_kernel, out, sms, "HBM");
        measure("store_rate", (const void *)store_kernel, out_near, sms, "L2");
        measure("store_rate", (const void *)store_kernel, out_near, 1, "L2");
    }
    for (uint32_t shared_by = 1; shared_by <= 4; shared_by *= 2) {
        struct plan far = {16384, 8, COPIES_OF_CTA, SOURCE_BYTES, shared_by};
        struct plan near = {16384, 8, COPIES_OF_CTA, L2_BYTES, shared_by};
        int all = sms / 4 * 4 - 4; /* not all SMs can be filled with clusters of four */
        for (int ctas = 4; ctas <= all; ctas = ctas == 64 ? all : ctas * 4) {
            measure("multicast_rate", (const void *)load_kernel, far, ctas, "HBM");
            measure("multicast_rate", (const void *)load_kernel, near, ctas, "L2");
        }
    }
}
