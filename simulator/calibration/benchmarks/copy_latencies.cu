/* Latencies of one thread's accesses: loads through each cache, and bulk and tensor copies by their size and
 * source. */
#include "harness.cuh"

#define CHASE_STEPS 64
/* bytes from one access to the next: another L2 line and DRAM page each time */
#define CHASE_STRIDE 4096
#define L1_STRIDE    128
#define ARENA_BYTES  ((size_t)256 << 20)
#define COPIES       16 /* one after another, each waited for */
#define MAX_COPY     65536
#define MAX_BOX_ROWS 256 /* HW: the most rows of a tensor map's box */

static unsigned char *arena(void) {
    static unsigned char *bytes;
    if (bytes == NULL) {
        check("cudaMalloc", cudaMalloc((void **)&bytes, ARENA_BYTES));
        check("cudaMemset", cudaMemset(bytes, 0, ARENA_BYTES));
    }
    return bytes;
}

/* ---- loads: a chain of pointers, `stride` bytes apart ---- */

static __global__ void link_kernel(unsigned char *bytes, uint32_t stride) {
    for (uint32_t i = threadIdx.x; i < 2 * CHASE_STEPS; i += blockDim.x) {
        *(uint64_t *)(bytes + (uint64_t)i * stride) = (uint64_t)(bytes + (uint64_t)(i + 1) * stride);
    }
}

template <bool l1> static __global__ void memory_chase_kernel(uint64_t *span, uint64_t address, int laps) {
    uint64_t start = 0, first = address, end = 0;
#pragma unroll 1
    for (int lap = 0; lap < laps; lap++) {
        address = first;
        start = clock64_now();
#pragma unroll 1
        for (int i = 0; i < CHASE_STEPS; i++) {
            if (l1) {
                asm volatile("ld.global.ca.u64 %0, [%0];" : "+l"(address)::"memory");
            } else {
                asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(address)::"memory");
            }
        }
        span[2] = address;
        end = clock64_now();
    }
    span[0] = start;
    span[1] = end;
}

template <bool l1> static void measure_memory_chase(const char *where, uint32_t stride, bool cold) {
    uint64_t *span = results(3);
    unsigned char *bytes = arena();
    double cycles[LAUNCHES];
    for (int i = 0; i < LAUNCHES; i++) {
        void *link[] = {&bytes, &stride};
        launch((const void *)link_kernel, {1, 128, 1, 0}, link);
        if (cold) {
            flush_l2();
        }
        uint64_t address = (uint64_t)bytes;
        int laps = cold ? 1 : 3;
        void *arguments[] = {&span, &address, &laps};
        launch((const void *)memory_chase_kernel<l1>, {1, 1, 1, 0}, arguments);
        uint64_t measured[2];
        check("cudaMemcpy", cudaMemcpy(measured, span, sizeof measured, cudaMemcpyDeviceToHost));
        cycles[i] = (double)(measured[1] - measured[0]) / CHASE_STEPS;
    }
    reportf("global_load_latency_cycles", median(cycles, LAUNCHES), "cycles", "\"from\": \"%s\"", where);
}

/* ---- copies of one thread, each waited for before the next ---- */

/* rows: 0 for a bulk copy of `bytes`, else a box of so many swizzled rows. */
static __global__ void copy_kernel(uint64_t *span, const unsigned char *from,
                                   const __grid_constant__ CUtensorMap map, uint32_t bytes, uint32_t rows,
                                   int warm_laps) {
    extern __shared__ unsigned char memory[];
    __shared__ uint64_t barrier_words[1];
    struct mbarrier barrier = {cvta_to_shared(barrier_words)};
    uint32_t to = swizzle_aligned(memory);
    mbarrier_init(barrier, 1);
    fence_mbarrier_init();
    prefetch_tensormap(&map);
    uint32_t parity = 0;
    uint64_t start = 0, end = 0;
#pragma unroll 1
    for (int lap = 0; lap <= warm_laps; lap++) {
        start = clock64_now();
#pragma unroll 1
        for (int i = 0; i < COPIES; i++) {
            mbarrier_arrive_expect_tx(barrier, bytes);
            if (rows == 0) {
                cp_async_bulk(to, from + (uint64_t)i * MAX_COPY, bytes, barrier);
            } else {
                cp_async_bulk_tensor_3d(to, &map, 0, i * MAX_BOX_ROWS * 2, 0, barrier);
            }
            wait_parity(barrier, parity);
            parity ^= 1;
        }
        end = clock64_now();
    }
    span[0] = start;
    span[1] = end;
}

static void measure_copy(uint32_t bytes, bool tensor, bool cold) {
    uint64_t *span = results(3);
    unsigned char *from = arena();
    uint32_t rows = tensor ? bytes / SWIZZLE_ROW : 0;
    CUtensorMap map = tensor_map(from, ARENA_BYTES, SWIZZLE_ROW, rows > 0 ? rows : 8);
    double cycles[LAUNCHES];
    for (int i = 0; i < LAUNCHES; i++) {
        if (cold) {
            flush_l2();
        }
        int warm_laps = cold ? 0 : 2;
        void *arguments[] = {&span, &from, &map, &bytes, &rows, &warm_laps};
        launch((const void *)copy_kernel, {1, 1, 1, MAX_COPY + SWIZZLE_ATOM}, arguments);
        uint64_t measured[2];
        check("cudaMemcpy", cudaMemcpy(measured, span, sizeof measured, cudaMemcpyDeviceToHost));
        cycles[i] = (double)(measured[1] - measured[0]) / COPIES;
    }
    reportf("copy_latency_cycles", median(cycles, LAUNCHES), "cycles",
            "\"copy\": \"%s\", \"bytes\": %u, \"from\": \"%s\"", tensor ? "tensor" : "bulk", bytes,
            cold ? "HBM" : "L2");
}

void copies(void) {
    measure_memory_chase<true>("L1", L1_STRIDE, false);
    measure_memory_chase<false>("L2", CHASE_STRIDE, false);
    measure_memory_chase<false>("HBM", CHASE_STRIDE, true);
    for (int cold = 0; cold < 2; cold++) {
        for (uint32_t bytes = 16; bytes <= MAX_COPY; bytes *= 4) {
            measure_copy(bytes, false, cold != 0);
        }
        for (uint32_t bytes = 1024; bytes <= SWIZZLE_ROW * MAX_BOX_ROWS; bytes *= 2) {
            measure_copy(bytes, true, cold != 0);
        }
    }
}
