/* Reads of rows that lie far apart in HBM. How many bytes around the ones asked for come to L2 with them: for
 * tensor boxes of each L2 promotion, and for each other kind of load. Also what a kernel's first box waits for
 * besides memory. */
#include "harness.cuh"

#define ROWS        64
#define ROW_BYTES   64 /* a row of a box: half a line */
#define PITCH       2048
#define COLUMNS     8 /* boxes of the same rows, one after the other */
#define COLUMNS_ALL (PITCH / ROW_BYTES)
/* distance from the first box of the bytes that are read before it, in the same page */
#define TOUCHED    (PITCH / 2)
#define APART      4000 /* cycles between an access that a box may wait for and the box */
#define MAX_CTAS   132
#define MOST_WARPS 8 /* the most warps of a CTA */
#define BYTES      ((size_t)MAX_CTAS * MOST_WARPS * WARP_LANES * PITCH)

struct cold_plan {
    const unsigned char *bytes;
    /* whether the descriptor, or another line of the same rows, was read APART cycles before */
    uint32_t described, touched;
};

static __device__ __forceinline__ void one_box(uint32_t to, const CUtensorMap *map, uint32_t row,
                                               uint32_t column, struct mbarrier barrier) {
    mbarrier_arrive_expect_tx(barrier, ROWS * ROW_BYTES);
    cp_async_bulk_tensor_3d(to, map, 0, (int32_t)row, (int32_t)column, barrier);
}

/* Cycles of each column's box. */
static __global__ void cold_kernel(uint64_t *spans, const __grid_constant__ CUtensorMap map,
                                   struct cold_plan plan) {
    extern __shared__ unsigned char memory[];
    __shared__ uint64_t word;
    const uint32_t row = blockIdx.x * ROWS;
    const uint32_t to = swizzle_aligned(memory);
    struct mbarrier barrier = {cvta_to_shared(&word)};
    mbarrier_init(barrier, 1);
    fence_mbarrier_init();
    if (plan.described != 0) {
        prefetch_tensormap(&map);
    }
    if (plan.touched != 0) {
        uint32_t sum = 0;
        for (uint32_t i = 0; i < ROWS; i++) {
            sum += *(const volatile uint32_t *)(plan.bytes + (size_t)(row + i) * PITCH + TOUCHED);
        }
        if (sum == 1) { /* never true: keeps the loads alive */
            spans[0] = sum;
        }
    }
    spin(APART);
    for (uint32_t column = 0; column < COLUMNS; column++) {
        uint64_t start = clock64_now();
        one_box(to, &map, row, column, barrier);
        wait_parity(barrier, column & 1);
        spans[blockIdx.x * COLUMNS + column] = clock64_now() - start;
        spin(APART);
    }
}

#define PARTS      8
#define PART_APART 32 /* bytes: a sector */
/* first of the spans that no thread reads: a place for values that must be kept */
#define SPARE (MAX_CTAS * MOST_WARPS * PARTS)

enum way { LOAD, COPY, COPY_HINTED, COPY_CACHED, BLOCK, PREFETCH, WAYS };
static const char *const way_names[] = {"ld",
                                        "cp.async.cg 16",
                                        "cp.async.cg 16 L2::256B",
                                        "cp.async.ca 4",
                                        "cp.async.bulk 32",
                                        "ld behind one prefetch"};

/* Cycles of each part of a warp's rows, one row a lane. */
template <enum way way> static __global__ void part_kernel(uint64_t *spans, const unsigned char *bytes) {
    __shared__ __align__(128) unsigned char memory[MOST_WARPS * WARP_LANES * PART_APART];
    __shared__ uint64_t word;
    const uint32_t warp = (blockIdx.x * blockDim.x + threadIdx.x) / WARP_LANES;
    const bool first_lane = threadIdx.x % WARP_LANES == 0;
    const unsigned char *row = bytes + (size_t)(blockIdx.x * blockDim.x + threadIdx.x) * PITCH;
    const uint32_t to = cvta_to_shared(memory) + threadIdx.x * PART_APART;
    struct mbarrier barrier = {cvta_to_shared(&word)};
    if (threadIdx.x == 0) {
        mbarrier_init(barrier, 1);
        fence_mbarrier_init();
    }
    __syncwarp();
    if (way == PREFETCH) {
        prefetch_global_l2(row);
        spin(APART);
    }
#pragma unroll 1
    for (uint32_t part = 0; part < PARTS; part++) {
        const unsigned char *from = row + part * PART_APART;
        uint64_t start = clock64_now();
        if (way == LOAD || way == PREFETCH) {
            uint32_t value;
            asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(value) : "l"(from) : "memory");
            spans[SPARE + threadIdx.x % 2] = value; /* makes what follows wait for the load */
        } else if (way == COPY) {
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
        } else if (way == COPY_HINTED) {
            cp_async_cg_16(to, from);
        } else if (way == COPY_CACHED) {
            cp_async_ca_4(to, from);
        } else {
            if (threadIdx.x == 0) {
                mbarrier_arrive_expect_tx(barrier, WARP_LANES * PART_APART);
            }
            __syncwarp();
            cp_async_bulk(to, from, PART_APART, barrier);
            wait_parity(barrier, part & 1);
        }
        cp_async_commit_group();
        cp_async_wait_group<0>();
        __syncwarp();
        if (first_lane) {
            spans[warp * PARTS + part] = clock64_now() - start;
        }
        spin(APART);
    }
}

static void measure_parts(unsigned char *bytes, enum way way, int ctas, int warps) {
    static const void *const kernels[WAYS] = {
        (const void *)part_kernel<LOAD>,        (const void *)part_kernel<COPY>,
        (const void *)part_kernel<COPY_HINTED>, (const void *)part_kernel<COPY_CACHED>,
        (const void *)part_kernel<BLOCK>,       (const void *)part_kernel<PREFETCH>};
    uint64_t *spans = results(SPARE + 2);
    void *arguments[] = {&spans, &bytes};
    double all[PARTS];
    medians_of(ctas * warps, PARTS, all, [&] {
        replace_l2();
        launch(kernels[way], {ctas, warps * WARP_LANES, 1, 0}, arguments);
    });
    for (int part = 0; part < PARTS; part++) {
        reportf("row_part_cycles", all[part], "cycles",
                "\"by\": \"%s\", \"ctas\": %d, \"warps\": %d, \"offset_bytes\": %d", way_names[way], ctas,
                warps, part * PART_APART);
    }
}

/* One load by `lanes` lanes, a row each: its cycles from HBM, and of the same load again from L2. */
static __global__ void lanes_kernel(uint64_t *spans, const unsigned char *bytes, uint32_t lanes) {
    const unsigned char *row = bytes + (size_t)threadIdx.x * PITCH;
    spin(APART);
    for (uint32_t again = 0; again < 2; again++) {
        uint64_t start = clock64_now();
        if (threadIdx.x < lanes) {
            uint32_t value;
            asm volatile("ld.global.cg.u32 %0, [%1];" : "=r"(value) : "l"(row) : "memory");
            spans[2 + threadIdx.x % 2] = value; /* makes what follows wait for the load */
        }
        __syncwarp();
        if (threadIdx.x == 0) {
            spans[again] = clock64_now() - start;
        }
        spin(APART);
    }
}

static void measure_lanes(unsigned char *bytes, uint32_t lanes) {
    static const char *const memories[] = {"HBM", "L2"};
    uint64_t *spans = results(4);
    void *arguments[] = {&spans, &bytes, &lanes};
    double all[2];
    medians_of(1, 2, all, [&] {
        replace_l2();
        launch((const void *)lanes_kernel, {1, WARP_LANES, 1, 0}, arguments);
    });
    for (int again = 0; again < 2; again++) {
        reportf("rows_load_cycles", all[again], "cycles", "\"lanes\": %u, \"from\": \"%s\"", lanes,
                memories[again]);
    }
}

static void measure_cold(unsigned char *bytes, int ctas, CUtensorMapL2promotion promotion, uint32_t described,
                         uint32_t touched) {
    static const int promoted[] = {0, 64, 128, 256};
    uint64_t *spans = results(MAX_CTAS * COLUMNS);
    struct cold_plan plan = {bytes, described, touched};
    CUtensorMap map =
        promoted_map(bytes, {ROW_BYTES / 2, MAX_CTAS * ROWS, COLUMNS_ALL}, {PITCH, ROW_BYTES}, ROWS, promotion);
    void *arguments[] = {&spans, &map, &plan};
    double all[COLUMNS];
    medians_of(ctas, COLUMNS, all, [&] {
        replace_l2();
        launch((const void *)cold_kernel, {ctas, 1, 1, ROWS * ROW_BYTES + SWIZZLE_ATOM}, arguments);
    });
    for (uint32_t column = 0; column < COLUMNS; column++) {
        reportf("cold_box_cycles", all[column], "cycles",
                "\"ctas\": %d, \"promotion\": %d, \"described\": %u, \"touched\": %u, \"column\": %u", ctas,
                promoted[promotion], described, touched, column);
    }
}

void cold(void) {
    unsigned char *bytes = zeroed(BYTES);
    for (int promotion = 0; promotion <= CU_TENSOR_MAP_L2_PROMOTION_L2_256B; promotion++) {
        measure_cold(bytes, 1, (CUtensorMapL2promotion)promotion, 1, 1);
        measure_cold(bytes, MAX_CTAS, (CUtensorMapL2promotion)promotion, 1, 1);
    }
    measure_cold(bytes, MAX_CTAS, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, 0, 1);
    measure_cold(bytes, MAX_CTAS, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, 1, 0);
    measure_cold(bytes, MAX_CTAS, CU_TENSOR_MAP_L2_PROMOTION_L2_256B, 0, 0);
    for (int way = 0; way < WAYS; way++) {
        measure_parts(bytes, (enum way)way, 1, 1);
    }
    measure_parts(bytes, COPY, MAX_CTAS, 2);
    measure_parts(bytes, COPY_HINTED, MAX_CTAS, 2);
    measure_parts(bytes, COPY, MAX_CTAS, MOST_WARPS);
    measure_parts(bytes, COPY_HINTED, MAX_CTAS, MOST_WARPS);
    for (uint32_t lanes = 1; lanes <= WARP_LANES; lanes *= 2) {
        measure_lanes(bytes, lanes);
    }
    check("cudaFree", cudaFree(bytes));
}
