/* A producer that issues several copies for a stage, as a kernel's does, and a consumer that releases each
 * stage as soon as it is full: cycles a stage, by copies in a stage and stages in the ring. */
#include "harness.cuh"

#define MAX_STAGES  8
#define STAGE_BYTES 24576
#define NEAR_BYTES  ((size_t)16 << 20) /* stays in L2 */
#define FEW_LAPS    64
#define MANY_LAPS   320
#define BOX_ROWS    32
#define BOX_BYTES   (BOX_ROWS * SWIZZLE_ROW)
#define BOTH_WARPS  (2 * WARP_LANES)

struct plan {
    const unsigned char *source;
    uint32_t laps, stages;
};

template <int boxes, int rest, int rest_bytes>
static __global__ void __launch_bounds__(BOTH_WARPS, 1)
    producer_kernel(uint64_t *span, const __grid_constant__ CUtensorMap map, struct plan plan) {
    extern __shared__ unsigned char memory[];
    __shared__ uint64_t words[2 * MAX_STAGES];
    uint32_t base = cvta_to_shared(memory);
    base += (SWIZZLE_ATOM - base % SWIZZLE_ATOM) % SWIZZLE_ATOM;
    uint32_t full = cvta_to_shared(words), empty = full + MAX_STAGES * 8;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2 * MAX_STAGES; i++) {
            mbarrier_init({full + i * 8}, 1);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    uint64_t start = clock64_now();
    if (threadIdx.x == 0) {
        uint32_t stage = 0, parity = 1, row = 0;
        for (uint32_t lap = 0; lap < plan.laps; lap++) {
            wait_parity({empty + stage * 8}, parity);
            struct mbarrier barrier = {full + stage * 8};
            uint32_t to = base + stage * STAGE_BYTES;
            mbarrier_arrive_expect_tx(barrier, boxes * BOX_BYTES + rest * rest_bytes);
#pragma unroll
            for (int i = 0; i < boxes; i++) {
                cp_async_bulk_tensor_3d(to + i * BOX_BYTES, &map, 0, (int32_t)(row + i * BOX_ROWS), 0, barrier);
            }
#pragma unroll
            for (int i = 0; i < rest; i++) {
                cp_async_bulk(to + boxes * BOX_BYTES + i * rest_bytes, plan.source + (row + i) * SWIZZLE_ROW,
                              rest_bytes, barrier);
            }
            row = (row + 256) % (NEAR_BYTES / SWIZZLE_ROW);
            stage = stage + 1 == plan.stages ? 0 : stage + 1;
            parity ^= stage == 0;
        }
    } else if (threadIdx.x == WARP_LANES) {
        uint32_t stage = 0, parity = 0;
        for (uint32_t lap = 0; lap < plan.laps; lap++) {
            wait_parity({full + stage * 8}, parity);
            mbarrier_arrive({empty + stage * 8});
            stage = stage + 1 == plan.stages ? 0 : stage + 1;
            parity ^= stage == 0;
        }
        note_span(span, start, clock64_now());
    }
}

static unsigned char *near_memory(void) {
    static unsigned char *bytes;
    if (bytes == NULL) {
        check("cudaMalloc", cudaMalloc((void **)&bytes, 2 * NEAR_BYTES));
        check("cudaMemset", cudaMemset(bytes, 0, 2 * NEAR_BYTES));
    }
    return bytes;
}

template <int boxes, int rest, int rest_bytes> static void measure(void) {
    const void *kernel = (const void *)producer_kernel<boxes, rest, rest_bytes>;
    uint64_t *span = results(2);
    CUtensorMap map = tensor_map(near_memory(), 2 * NEAR_BYTES, SWIZZLE_ROW, BOX_ROWS);
    for (uint32_t stages = 1; stages <= MAX_STAGES; stages *= 2) {
        double cycles[2];
        for (int many = 0; many < 2; many++) {
            struct plan plan = {near_memory(), many ? (uint32_t)MANY_LAPS : (uint32_t)FEW_LAPS, stages};
            void *arguments[] = {&span, &map, &plan};
            struct shape shape = {1, BOTH_WARPS, 1, MAX_STAGES * STAGE_BYTES + SWIZZLE_ATOM};
            cycles[many] = measured_span(kernel, shape, arguments, span);
        }
        reportf("producer_stage_cycles", (cycles[1] - cycles[0]) / (MANY_LAPS - FEW_LAPS), "cycles",
                "\"boxes\": %d, \"bulk\": %d, \"bulk_bytes\": %d, \"stages\": %u", boxes, rest, rest_bytes,
                stages);
    }
}

void producers(void) {
    measure<0, 1, 1024>();
    measure<0, 2, 1024>();
    measure<0, 6, 1024>();
    measure<1, 0, 0>();
    measure<2, 0, 0>();
    measure<4, 0, 0>();
    measure<2, 2, 1024>();
    measure<4, 2, 1024>();
}
