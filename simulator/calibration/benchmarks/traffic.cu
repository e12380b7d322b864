/* Rates of several accesses at once: tensor boxes, loads and stores of warps, stores into the other CTA of
 * every cluster, and mbarrier arrivals of many threads. */
#include "harness.cuh"

#define BOX_RING_BYTES (160 * 1024)
#define MAX_BOXES      32
#define FAR_BYTES      ((size_t)1 << 30)
#define NEAR_BYTES     ((size_t)16 << 20) /* stays in L2 */
#define BOXES_OF_CTA   256
#define LOADS_OF_WARP  64
#define ARRIVALS       64
#define BLOCK_BYTES    65536
#define ROUNDS         8
#define FULL_WARPS     8

/* ---- boxes ---- */

struct box_plan {
    uint32_t bytes, rows, slots, boxes, map_rows;
};

static __global__ void box_kernel(uint64_t *span, const __grid_constant__ CUtensorMap map,
                                  struct box_plan plan) {
    extern __shared__ unsigned char memory[];
    __shared__ uint64_t words[MAX_BOXES];
    uint32_t full = cvta_to_shared(words);
    uint32_t to = swizzle_aligned(memory);
    for (uint32_t slot = 0; slot < plan.slots; slot++) {
        mbarrier_init({full + slot * 8}, 1);
    }
    fence_mbarrier_init();
    uint32_t slot = 0, parity = 1, row = blockIdx.x * plan.rows;
    uint64_t start = globaltimer_now();
    for (uint32_t i = 0; i < plan.boxes + plan.slots; i++) {
        struct mbarrier barrier = {full + slot * 8};
        if (i >= plan.slots) {
            wait_parity(barrier, parity);
        }
        if (i < plan.boxes) {
            mbarrier_arrive_expect_tx(barrier, plan.bytes);
            cp_async_bulk_tensor_3d(to + slot * plan.bytes, &map, 0, (int32_t)row, 0, barrier);
            row += gridDim.x * plan.rows;
            row = row + plan.rows > plan.map_rows ? blockIdx.x * plan.rows : row;
        }
        if (++slot == plan.slots) {
            slot = 0;
            parity ^= 1;
        }
    }
    note_span(span, start, globaltimer_now());
}

static void measure_boxes(unsigned char *bytes, uint32_t row_bytes, uint32_t rows, uint32_t in_flight, int ctas,
                          bool far) {
    uint64_t *span = results(2);
    size_t held = far ? FAR_BYTES : NEAR_BYTES;
    CUtensorMap map = tensor_map(bytes, held, row_bytes, rows);
    uint32_t box = row_bytes * rows, slots = in_flight / box;
    slots = slots < 1 ? 1 : slots > MAX_BOXES ? MAX_BOXES : slots;
    struct box_plan plan = {box, rows, slots, BOXES_OF_CTA, (uint32_t)(held / row_bytes)};
    void *arguments[] = {&span, &map, &plan};
    double ns =
        measured_span((const void *)box_kernel, {ctas, 1, 1, BOX_RING_BYTES + SWIZZLE_ATOM}, arguments, span);
    reportf("box_rate", (double)box * BOXES_OF_CTA * ctas / ns, "delivered bytes a ns",
            "\"row_bytes\": %u, \"rows\": %u, \"in_flight_bytes\": %u, \"ctas\": %d, \"memory\": \"%s\"",
            row_bytes, rows, slots * box, ctas, far ? "HBM" : "L2");
}

/* ---- loads and stores of warps, 16 bytes a lane ---- */

template <int ahead, bool store>
static __global__ void warps_kernel(uint64_t *span, unsigned char *bytes, uint64_t mask) {
    uint64_t at = ((uint64_t)blockIdx.x * blockDim.x + threadIdx.x) * 16,
             step = (uint64_t)gridDim.x * blockDim.x * 16;
    uint32_t sum = 0;
    uint64_t start = globaltimer_now();
#pragma unroll 1
    for (int i = 0; i < LOADS_OF_WARP; i += ahead) {
        uint4 read[ahead];
#pragma unroll
        for (int k = 0; k < ahead; k++) {
            uint4 *from = (uint4 *)(bytes + (at & mask));
            if (store) {
                asm volatile("st.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(from), "r"(i) : "memory");
            } else {
                asm volatile("ld.global.cg.v4.u32 {%0, %1, %2, %3}, [%4];"
                             : "=r"(read[k].x), "=r"(read[k].y), "=r"(read[k].z), "=r"(read[k].w)
                             : "l"(from)
                             : "memory");
            }
            at += step;
        }
#pragma unroll
        for (int k = 0; k < ahead && !store; k++) {
            sum += read[k].x;
        }
    }
    span[2 + threadIdx.x % 2] = sum;
    uint64_t end = globaltimer_now();
    __syncthreads();
    /* one thread only: atomics of all threads would take longer than what is measured */
    if (threadIdx.x == 0) {
        note_span(span, start, end);
    }
}

template <int ahead, bool store>
static void measure_warps(unsigned char *bytes, int warps, int ctas, bool far) {
    uint64_t *span = results(4);
    uint64_t mask = (far ? FAR_BYTES : NEAR_BYTES) - 1;
    void *arguments[] = {&span, &bytes, &mask};
    double ns = measured_span((const void *)warps_kernel<ahead, store>, {ctas, warps * WARP_LANES, 1, 0},
                              arguments, span);
    reportf(store ? "warp_store_rate" : "warp_load_rate",
            (double)LOADS_OF_WARP * 16 * WARP_LANES * warps * ctas / ns, "bytes a ns",
            "\"ahead\": %d, \"warps\": %d, \"ctas\": %d, \"memory\": \"%s\"", ahead, warps, ctas,
            far ? "HBM" : "L2");
}

/* ---- the CTAs of every cluster store into each other ---- */

static __global__ void all_remote_kernel(uint64_t *span) {
    extern __shared__ __align__(128) unsigned char memory[];
    uint32_t to = mapa_shared_cluster(cvta_to_shared(memory), (blockIdx.x & 1) ^ 1);
    float four[4] = {1, 2, 3, (float)threadIdx.x};
    barrier_cluster_arrive_release();
    barrier_cluster_wait_acquire();
    uint64_t start = clock64_now();
#pragma unroll 1
    for (int round = 0; round < ROUNDS; round++) {
        for (uint32_t at = threadIdx.x * 16; at < BLOCK_BYTES; at += blockDim.x * 16) {
            st_shared_cluster_v4(to + at, four);
        }
    }
    barrier_cluster_arrive_release();
    barrier_cluster_wait_acquire();
    if (blockIdx.x == 0) {
        note_span(span, start, clock64_now());
    }
}

/* ---- arrivals of whole warps on one mbarrier ---- */

static __global__ void arrivals_kernel(uint64_t *span, uint32_t lanes) {
    __shared__ uint64_t word;
    struct mbarrier barrier = {cvta_to_shared(&word)};
    if (threadIdx.x == 0) {
        mbarrier_init(barrier, blockDim.x / WARP_LANES * lanes);
        fence_mbarrier_init();
    }
    __syncthreads();
    uint64_t start = 0;
#pragma unroll 1
    for (int lap = 0; lap < 2; lap++) {
        __syncthreads();
        start = clock64_now();
#pragma unroll 1
        for (uint32_t turn = 0; turn < ARRIVALS; turn++) {
            if (threadIdx.x % WARP_LANES < lanes) {
                mbarrier_arrive(barrier);
            }
            wait_parity(barrier, turn & 1);
        }
    }
    note_span(span, start, clock64_now());
}

void traffic(void) {
    int sms = sm_count();
    unsigned char *bytes = zeroed(FAR_BYTES);
    static const uint32_t boxes[][2] = {{64, 32},  {64, 64},   {64, 128}, {128, 32},
                                        {128, 64}, {128, 128}, {128, 256}};
    for (size_t b = 0; b < sizeof boxes / sizeof *boxes; b++) {
        for (uint32_t in_flight = 32768; in_flight <= 131072; in_flight *= 2) {
            measure_boxes(bytes, boxes[b][0], boxes[b][1], in_flight, sms, true);
            measure_boxes(bytes, boxes[b][0], boxes[b][1], in_flight, sms, false);
            measure_boxes(bytes, boxes[b][0], boxes[b][1], in_flight, 1, false);
        }
    }
    for (int far = 0; far < 2; far++) {
        measure_warps<1, false>(bytes, FULL_WARPS, sms, far != 0);
        measure_warps<4, false>(bytes, FULL_WARPS, sms, far != 0);
        measure_warps<4, false>(bytes, 4 * FULL_WARPS, sms, far != 0);
        measure_warps<4, true>(bytes, FULL_WARPS, sms, far != 0);
    }
    measure_warps<4, false>(bytes, FULL_WARPS, 1, false);
    measure_warps<4, true>(bytes, FULL_WARPS, 1, false);
    uint64_t *span = results(4);
    for (int threads = 128; threads <= 384; threads += 256) {
        void *arguments[] = {&span};
        double cycles = measured_span((const void *)all_remote_kernel, {sms / 2 * 2, threads, 2, BLOCK_BYTES},
                                      arguments, span);
        char parameters[64];
        snprintf(parameters, sizeof parameters, "\"threads\": %d", threads);
        report("remote_store_all_bytes_a_cycle", parameters, (double)ROUNDS * BLOCK_BYTES / cycles,
               "bytes a cycle");
    }
    for (int warps = 1; warps <= 12; warps *= warps == 4 ? 3 : 4) {
        for (uint32_t lanes = 1; lanes <= WARP_LANES; lanes *= WARP_LANES) {
            void *arguments[] = {&span, &lanes};
            char parameters[64];
            snprintf(parameters, sizeof parameters, "\"warps\": %d, \"lanes\": %u", warps, lanes);
            report(
                "mbarrier_turn_cycles", parameters,
                measured_span((const void *)arrivals_kernel, {1, warps * WARP_LANES, 1, 0}, arguments, span) /
                    ARRIVALS,
                "cycles");
        }
    }
    check("cudaFree", cudaFree(bytes));
}
