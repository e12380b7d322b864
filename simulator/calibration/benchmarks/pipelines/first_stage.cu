/* A GEMM's first stages: boxes of B are requested before griddepcontrol.wait, and boxes of A, which the
 * previous kernel wrote and half of the SMs share, right after it. */
#include "harness.cuh"

#define CTAS          96
#define SHARES        2 /* parts that K is split into: every second CTA reads the same boxes of A */
#define MOST_STAGES   6
#define B_ROWS        64
#define B_ROW_BYTES   64 /* bytes of a row of B in a stage: 128 elements of four bits */
#define A_ROWS        64
#define A_ROW_BYTES   128 /* a row of a box of A: 64 halves; two boxes a stage */
#define SCALES        1024
#define K_BYTES       2048 /* bytes of a row of B */
#define STAGE_BYTES   (2 * B_ROWS * B_ROW_BYTES + 2 * SCALES + 2 * A_ROWS * A_ROW_BYTES)
#define B_BYTES       ((size_t)2 * CTAS / SHARES * B_ROWS * K_BYTES)
#define A_K_BYTES     (4 * K_BYTES)
#define A_BYTES       ((size_t)A_ROWS * A_K_BYTES)
#define SCALE_BYTES   ((size_t)2 * CTAS * MOST_STAGES * SCALES)
#define WRITER_CTAS   32 /* CTAs that write A, each on an SM of its own */
#define WRITER_LANES  256
#define LONG_AHEAD    8000 /* cycles after which B has arrived before A is requested */
#define SHORT_AHEAD   800
#define LAUNCH_CYCLES 16000 /* cycles: longer than the host needs for the next launch */
#define BOXES_AT_ONCE 16
#define SPANS         3 /* values that a CTA leaves */
#define STAGES_SHARED (MOST_STAGES * STAGE_BYTES + SWIZZLE_ATOM)

struct stage_plan {
    /* a, b: whether there are boxes of A and of B; again: the second request is timed */
    uint32_t stages, a, b, again;
    const unsigned char *scales;
};

/* Triggers the next kernel once the host has launched it; writes (or reads) A some time after that. */
static __global__ void writer_kernel(uint4 *to, uint32_t ahead, uint32_t stores) {
    spin(LAUNCH_CYCLES);
    griddepcontrol_launch_dependents();
    spin(ahead);
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < A_BYTES / sizeof(uint4);
         i += gridDim.x * blockDim.x) {
        if (stores != 0) {
            to[i] = make_uint4(0, i, 0, 0);
        } else if (to[i].x == 1) { /* never true: keeps the load alive */
            to[i].y = 1;
        }
    }
}

static __device__ __forceinline__ void ask_for_b(const struct stage_plan &plan, const CUtensorMap *map,
                                                 uint32_t to, struct mbarrier full, uint32_t stage,
                                                 uint32_t k) {
    const int32_t row = (int32_t)(blockIdx.x / SHARES) * B_ROWS;
    cp_async_bulk_tensor_3d(to, map, 0, row, (int32_t)k, full);
    cp_async_bulk_tensor_3d(to + B_ROWS * B_ROW_BYTES, map, 0, row + CTAS / SHARES * B_ROWS, (int32_t)k, full);
    for (uint32_t i = 0; i < 2; i++) {
        cp_async_bulk(to + 2 * B_ROWS * B_ROW_BYTES + i * SCALES,
                      plan.scales + ((2 * blockIdx.x + i) * MOST_STAGES + stage) * SCALES, SCALES, full);
    }
}

static __device__ __forceinline__ void ask_for_a(const CUtensorMap *map, uint32_t to, struct mbarrier full,
                                                 uint32_t k) {
    for (uint32_t i = 0; i < 2; i++) {
        cp_async_bulk_tensor_3d(to + i * A_ROWS * A_ROW_BYTES, map, 0, 0, (int32_t)(2 * k + i), full);
    }
}

/* Cycles from the request of A (of B, where there is no A) until the first stage is full, and until the last
 * is; and how long before A B was requested. */
static __global__ void stage_kernel(uint64_t *spans, const __grid_constant__ CUtensorMap map_a,
                                    const __grid_constant__ CUtensorMap map_b, struct stage_plan plan) {
    extern __shared__ unsigned char memory[];
    __shared__ uint64_t words[MOST_STAGES];
    const uint32_t full = cvta_to_shared(words);
    const uint32_t a = swizzle_aligned(memory);
    const uint32_t b = a + MOST_STAGES * 2 * A_ROWS * A_ROW_BYTES, first_k = blockIdx.x % SHARES * plan.stages;
    const uint32_t a_bytes = 2 * A_ROWS * A_ROW_BYTES, b_bytes = 2 * (B_ROWS * B_ROW_BYTES + SCALES);
    prefetch_tensormap(&map_a);
    prefetch_tensormap(&map_b);
    for (uint32_t i = 0; i < plan.stages; i++) {
        mbarrier_init({full + i * 8}, 1);
    }
    fence_mbarrier_init();
    griddepcontrol_launch_dependents();
    for (uint32_t asking = 0; asking <= plan.again; asking++) {
        uint64_t start = clock64_now(), first = start;
        for (uint32_t i = 0; i < plan.stages; i++) {
            mbarrier_arrive_expect_tx({full + i * 8}, plan.a * a_bytes + plan.b * b_bytes);
            if (plan.b != 0) {
                ask_for_b(plan, &map_b, b + i * b_bytes, {full + i * 8}, i, first_k + i);
            }
        }
        if (plan.a != 0) {
            griddepcontrol_wait();
            start = clock64_now();
            for (uint32_t i = 0; i < plan.stages; i++) {
                ask_for_a(&map_a, a + i * a_bytes, {full + i * 8}, first_k + i);
            }
        }
        wait_parity({full}, asking);
        spans[SPANS * blockIdx.x] = clock64_now() - start;
        for (uint32_t i = 1; i < plan.stages; i++) {
            wait_parity({full + i * 8}, asking);
        }
        spans[SPANS * blockIdx.x + 1] = clock64_now() - start;
        spans[SPANS * blockIdx.x + 2] = start - first;
    }
}

/* Boxes that one thread requests at once, from L2: cycles until the last of them has arrived. */
static __global__ void boxes_kernel(uint64_t *spans, const __grid_constant__ CUtensorMap map, uint32_t boxes,
                                    uint32_t bytes, uint32_t rows) {
    extern __shared__ unsigned char memory[];
    __shared__ uint64_t word;
    const uint32_t to = swizzle_aligned(memory);
    struct mbarrier barrier = {cvta_to_shared(&word)};
    mbarrier_init(barrier, 1);
    fence_mbarrier_init();
    for (uint32_t lap = 0; lap < 3; lap++) { /* only the last lap is kept */
        uint64_t start = clock64_now();
        mbarrier_arrive_expect_tx(barrier, boxes * bytes);
        for (uint32_t i = 0; i < boxes; i++) {
            cp_async_bulk_tensor_3d(to + i * bytes, &map, 0, (int32_t)(i * rows), 0, barrier);
        }
        wait_parity(barrier, lap & 1);
        spans[0] = clock64_now() - start;
    }
}

struct memory {
    unsigned char *a, *b, *scales;
};

struct pair {
    /* ahead: approximate cycles from the request of B to that of A */
    uint32_t a, b, stages, stored, again, ahead;
    bool pdl;
};

/* One pair of launches with nothing in L2 but A: the medians over all CTAs of their values. */
static void pair_cycles(const struct memory &memory, const struct pair &pair, double (&cycles)[SPANS]) {
    uint64_t *spans = results(SPANS * CTAS), measured[SPANS * CTAS];
    unsigned char *a = memory.a;
    uint32_t ahead = pair.ahead, stores = pair.stored;
    struct stage_plan plan = {pair.stages, pair.a, pair.b, pair.again, memory.scales};
    CUtensorMap map_a = strided_map(memory.a, {A_ROW_BYTES / 2, A_ROWS, A_K_BYTES / A_ROW_BYTES},
                                    {A_K_BYTES, A_ROW_BYTES}, A_ROWS);
    CUtensorMap map_b =
        strided_map(memory.b, {B_ROW_BYTES / 2, 2 * CTAS / SHARES * B_ROWS, K_BYTES / B_ROW_BYTES},
                    {K_BYTES, B_ROW_BYTES}, B_ROWS);
    void *before[] = {&a, &ahead, &stores}, *then[] = {&spans, &map_a, &map_b, &plan};
    replace_l2();
    enqueue((const void *)writer_kernel, {WRITER_CTAS, WRITER_LANES, 1, 0}, false, before);
    if (!pair.pdl) {
        check("kernel", cudaStreamSynchronize(queue()));
    }
    enqueue((const void *)stage_kernel, {CTAS, 1, 1, STAGES_SHARED}, pair.pdl, then);
    check("kernels", cudaStreamSynchronize(queue()));
    check("cudaMemcpy", cudaMemcpy(measured, spans, sizeof measured, cudaMemcpyDeviceToHost));
    for (int part = 0; part < SPANS; part++) {
        double of[CTAS];
        for (int cta = 0; cta < CTAS; cta++) {
            of[cta] = (double)measured[SPANS * cta + part];
        }
        cycles[part] = median(of, CTAS);
    }
}

static void measure_pair(const struct memory &memory, const struct pair &pair) {
    static const char *const parts[SPANS] = {"first", "last", "A asked"};
    double cycles[SPANS], all[SPANS][LAUNCHES];
    for (int i = -WARM_UP_LAUNCHES; i < LAUNCHES; i++) {
        pair_cycles(memory, pair, cycles);
        for (int part = 0; part < SPANS && i >= 0; part++) {
            all[part][i] = cycles[part];
        }
    }
    /* without A there is no time before its request */
    const int count = pair.a != 0 ? SPANS : SPANS - 1;
    for (int part = 0; part < count; part++) {
        reportf(
            "first_stage_cycles", median(all[part], LAUNCHES), "cycles",
            "\"a\": %u, \"b\": %u, \"stages\": %u, \"stored\": %u, \"again\": %u, \"ahead\": %u, \"pdl\": %d, "
            "\"full\": \"%s\"",
            pair.a, pair.b, pair.stages, pair.stored, pair.again, pair.ahead, pair.pdl, parts[part]);
    }
}

static void measure_boxes(unsigned char *bytes, uint32_t row_bytes, uint32_t boxes) {
    uint64_t *spans = results(1);
    uint32_t rows = A_ROWS, box = rows * row_bytes;
    CUtensorMap map = tensor_map(bytes, A_BYTES, row_bytes, rows);
    double cycles;
    medians_of(1, 1, &cycles, [&] {
        void *arguments[] = {&spans, &map, &boxes, &box, &rows};
        launch((const void *)boxes_kernel, {1, 1, 1, STAGES_SHARED}, arguments);
    });
    reportf("boxes_at_once_cycles", cycles, "cycles", "\"boxes\": %u, \"rows\": %u, \"row_bytes\": %u", boxes,
            rows, row_bytes);
}

void first_stage(void) {
    struct memory memory;
    check("cudaMalloc", cudaMalloc((void **)&memory.a, A_BYTES));
    check("cudaMalloc", cudaMalloc((void **)&memory.b, B_BYTES));
    check("cudaMalloc", cudaMalloc((void **)&memory.scales, SCALE_BYTES));
    check("cudaMemset", cudaMemset(memory.a, 0, A_BYTES));
    check("cudaMemset", cudaMemset(memory.b, 0, B_BYTES));
    check("cudaMemset", cudaMemset(memory.scales, 0, SCALE_BYTES));
    for (uint32_t stages = 2; stages <= MOST_STAGES; stages += MOST_STAGES - 2) {
        measure_pair(memory, {0, 1, stages, 1, 0, SHORT_AHEAD, false});
        measure_pair(memory, {1, 0, stages, 1, 0, LONG_AHEAD, true});
        measure_pair(memory, {1, 0, stages, 1, 1, LONG_AHEAD, true});
        measure_pair(memory, {1, 0, stages, 0, 0, LONG_AHEAD, true});
        measure_pair(memory, {1, 1, stages, 1, 0, SHORT_AHEAD, true});
    }
    measure_pair(memory, {1, 1, MOST_STAGES, 1, 0, LONG_AHEAD, true});
    measure_pair(memory, {1, 0, 2, 1, 0, SHORT_AHEAD, false});
    for (uint32_t row_bytes = B_ROW_BYTES; row_bytes <= A_ROW_BYTES; row_bytes *= 2) {
        for (uint32_t boxes = 1; boxes <= BOXES_AT_ONCE; boxes *= 4) {
            measure_boxes(memory.a, row_bytes, boxes);
        }
    }
    check("cudaFree", cudaFree(memory.a));
    check("cudaFree", cudaFree(memory.b));
    check("cudaFree", cudaFree(memory.scales));
}
