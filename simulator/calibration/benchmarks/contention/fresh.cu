/* Data that others have just written: copies of lines that the previous kernel stored, and a cluster release
 * after stores to the other CTA. */
#include "harness.cuh"

#define COPY_BYTES 16384
/* one after the other; only the first finds the lines as the previous kernel left them */
#define COPIES 2
/* cycles of the previous kernel: longer than the host needs for the next launch */
#define SPIN_CYCLES  6000
#define THREADS      256
#define MOST_CTAS    256
#define MOST_VECTORS 8

/* ---- copies ---- */

/* Stores to the part that a CTA far from this one will copy, or only reads it. */
static __global__ void __launch_bounds__(THREADS) writing_kernel(uint4 *to, uint32_t stores, uint32_t cycles) {
    griddepcontrol_launch_dependents();
    spin(cycles);
    uint4 *part = to + (blockIdx.x + gridDim.x / 2) % gridDim.x * (COPY_BYTES / sizeof(uint4));
    for (uint32_t i = threadIdx.x; i < COPY_BYTES / sizeof(uint4); i += THREADS) {
        if (stores != 0) {
            part[i] = make_uint4(0, i, 0, 0);
        } else if (part[i].x == 1) { /* never true: keeps the loads alive */
            part[i].y = 1;
        }
    }
}

/* Each CTA copies its part; the parts lie `apart` bytes from each other. Leaves the cycles of each copy. */
static __global__ void copying_kernel(uint64_t *spans, const unsigned char *from, uint32_t apart) {
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ uint64_t word;
    struct mbarrier barrier = {cvta_to_shared(&word)};
    mbarrier_init(barrier, 1);
    fence_mbarrier_init();
    griddepcontrol_wait();
    for (uint32_t copy = 0; copy < COPIES; copy++) {
        uint64_t start = clock64_now();
        mbarrier_arrive_expect_tx(barrier, COPY_BYTES);
        cp_async_bulk(cvta_to_shared(memory), from + blockIdx.x * apart, COPY_BYTES, barrier);
        wait_parity(barrier, copy);
        spans[COPIES * blockIdx.x + copy] = clock64_now() - start;
    }
}

/* pdl: the copies are a dependent launch that waits for the stores; otherwise the host waits in between. */
static void measure_copies(uint4 *bytes, bool stored, bool pdl, bool one_part) {
    int ctas = sm_count();
    uint32_t stores = stored, spin = SPIN_CYCLES, apart = one_part ? 0 : COPY_BYTES;
    uint64_t *spans = results(COPIES * MOST_CTAS);
    double cycles[COPIES];
    medians_of(ctas, COPIES, cycles, [&] {
        flush_l2();
        void *before[] = {&bytes, &stores, &spin}, *then[] = {&spans, &bytes, &apart};
        enqueue((const void *)writing_kernel, {ctas, THREADS, 1, 0}, false, before);
        if (!pdl) {
            check("kernel", cudaStreamSynchronize(queue()));
        }
        enqueue((const void *)copying_kernel, {ctas, 1, 1, COPY_BYTES}, pdl, then);
        check("kernels", cudaStreamSynchronize(queue()));
    });
    for (int copy = 0; copy < COPIES; copy++) {
        reportf("fresh_copy_cycles", cycles[copy], "cycles",
                "\"stored\": %d, \"pdl\": %d, \"one_part\": %d, \"copy\": %d", stored, pdl, one_part, copy + 1);
    }
}

/* ---- stores between the CTAs of a cluster ---- */

/* Each thread stores its vectors to the other CTA; then the cluster's barrier. */
static __global__ void __launch_bounds__(THREADS) exchange_kernel(uint64_t *spans, uint32_t vectors) {
    __shared__ __align__(16) float sums[MOST_VECTORS][THREADS][4];
    float four[4] = {0, 0, 0, 0};
    uint32_t theirs = mapa_shared_cluster(cvta_to_shared(sums), blockIdx.x % 2 ^ 1);
    uint64_t start = 0, sent = 0;
    for (int lap = 0; lap < 3; lap++) { /* only the last lap is kept */
        barrier_cluster_arrive_release();
        barrier_cluster_wait_acquire();
        start = clock64_now();
        for (uint32_t i = 0; i < vectors; i++) {
            st_shared_cluster_v4(theirs + (i * THREADS + threadIdx.x) * sizeof(float4), four);
        }
        sent = clock64_now();
        barrier_cluster_arrive_release();
        barrier_cluster_wait_acquire();
    }
    uint64_t end = clock64_now();
    if (threadIdx.x == 0) {
        spans[2 * blockIdx.x] = sent - start;
        spans[2 * blockIdx.x + 1] = end - start;
    }
}

static void measure_exchange(int ctas, uint32_t vectors) {
    uint64_t *spans = results(2 * MOST_CTAS);
    double cycles[2];
    medians_of(ctas, 2, cycles, [&] {
        void *arguments[] = {&spans, &vectors};
        launch((const void *)exchange_kernel, {ctas, THREADS, 2, 0}, arguments);
    });
    for (int part = 0; part < 2; part++) {
        reportf("cluster_exchange_cycles", cycles[part], "cycles",
                "\"ctas\": %d, \"vectors\": %u, \"until\": \"%s\"", ctas, vectors, part == 0 ? "sent" : "met");
    }
}

void fresh(void) {
    uint4 *bytes;
    size_t room = (size_t)sm_count() * COPY_BYTES;
    check("cudaMalloc", cudaMalloc((void **)&bytes, room));
    check("cudaMemset", cudaMemset(bytes, 0, room));
    for (int pdl = 0; pdl < 2; pdl++) {
        for (int one_part = 0; one_part < 2; one_part++) {
            measure_copies(bytes, false, pdl != 0, one_part != 0);
            measure_copies(bytes, true, pdl != 0, one_part != 0);
        }
    }
    check("cudaFree", cudaFree(bytes));
    for (int ctas = 2; ctas <= 128; ctas *= 64) {
        for (uint32_t vectors = 0; vectors <= MOST_VECTORS; vectors += vectors == 0 ? 1 : vectors) {
            measure_exchange(ctas, vectors);
        }
    }
}
