/* Boxes of A as the tiles of a GEMM copy them: boxes that reach past A's last row, by the number of SMs that
 * copy one at once; and several SMs that copy the same box. */
#include "harness.cuh"

#define COLUMNS   64   /* halves: one swizzled row */
#define K         4096 /* halves a row of A */
#define PITCH     (K * 2)
#define BOX_ROWS  128
#define BOX_BYTES (BOX_ROWS * COLUMNS * 2)
#define SLOTS     6
#define LAPS      4 /* passes over K */
#define MOST_ROWS 256

#define BESIDE_BYTES 8192
#define NEAR_BYTES   ((uint64_t)8 << 20)   /* stays in L2 */
#define FAR_BYTES    ((uint64_t)512 << 20) /* from HBM */

#define SHARED_K 1024 /* halves a row where SMs share boxes, so that all rows stay in L2 */

struct end_plan {
    /* CTAs with an index of `past` or more copy the rows from first_row, the others the rows from 0 */
    uint32_t past, first_row;
    const unsigned char *beside; /* a block of these is copied with each box; NULL: none */
    uint64_t beside_bytes;       /* bytes at `beside`: a power of two */
};

static __global__ void end_kernel(uint64_t *span, const __grid_constant__ CUtensorMap map,
                                  struct end_plan plan) {
    extern __shared__ unsigned char memory[];
    __shared__ uint64_t words[SLOTS];
    uint32_t full = cvta_to_shared(words);
    uint32_t to = swizzle_aligned(memory);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        mbarrier_init({full + slot * 8}, 1);
    }
    fence_mbarrier_init();
    uint32_t slot = 0, parity = 1, row = blockIdx.x >= plan.past ? plan.first_row : 0;
    const uint32_t boxes = LAPS * K / COLUMNS, beside = plan.beside != NULL ? BESIDE_BYTES : 0;
    uint64_t start = globaltimer_now();
    for (uint32_t i = 0; i < boxes + SLOTS; i++) {
        struct mbarrier barrier = {full + slot * 8};
        if (i >= SLOTS) {
            wait_parity(barrier, parity);
        }
        if (i < boxes) {
            mbarrier_arrive_expect_tx(barrier, BOX_BYTES + beside);
            cp_async_bulk_tensor_3d(to + slot * BOX_BYTES, &map, 0, (int32_t)row, (int32_t)(i % (K / COLUMNS)),
                                    barrier);
            if (beside > 0) {
                uint64_t at = ((uint64_t)i * gridDim.x + blockIdx.x) * BESIDE_BYTES & (plan.beside_bytes - 1);
                cp_async_bulk(to + SLOTS * BOX_BYTES + slot * BESIDE_BYTES, plan.beside + at, BESIDE_BYTES,
                              barrier);
            }
        }
        if (++slot == SLOTS) {
            slot = 0;
            parity ^= 1;
        }
    }
    note_span(span, start, globaltimer_now());
}

/* Groups of `sharers` CTAs copy the same rows. */
static __global__ void shared_kernel(uint64_t *span, const __grid_constant__ CUtensorMap map,
                                     uint32_t sharers) {
    extern __shared__ unsigned char memory[];
    __shared__ uint64_t words[SLOTS];
    uint32_t full = cvta_to_shared(words);
    uint32_t to = swizzle_aligned(memory);
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        mbarrier_init({full + slot * 8}, 1);
    }
    fence_mbarrier_init();
    uint32_t slot = 0, parity = 1, row = blockIdx.x / sharers * BOX_ROWS;
    const uint32_t boxes = LAPS * K / COLUMNS;
    uint64_t start = globaltimer_now();
    for (uint32_t i = 0; i < boxes + SLOTS; i++) {
        struct mbarrier barrier = {full + slot * 8};
        if (i >= SLOTS) {
            wait_parity(barrier, parity);
        }
        if (i < boxes) {
            mbarrier_arrive_expect_tx(barrier, BOX_BYTES);
            cp_async_bulk_tensor_3d(to + slot * BOX_BYTES, &map, 0, (int32_t)row,
                                    (int32_t)(i % (SHARED_K / COLUMNS)), barrier);
        }
        if (++slot == SLOTS) {
            slot = 0;
            parity ^= 1;
        }
    }
    note_span(span, start, globaltimer_now());
}

static void shared_boxes(void) {
    int sms = sm_count();
    uint64_t *span = results(2);
    unsigned char *bytes;
    size_t pitch = SHARED_K * 2, size = (size_t)sms * BOX_ROWS * pitch;
    check("cudaMalloc", cudaMalloc((void **)&bytes, size));
    check("cudaMemset", cudaMemset(bytes, 0, size));
    CUtensorMap map = strided_map(bytes, {COLUMNS, (cuuint64_t)sms * BOX_ROWS, SHARED_K / COLUMNS},
                                  {pitch, COLUMNS * 2}, BOX_ROWS);
    static const uint32_t sharers[] = {1, 2, 4, 12, 33, 66, 132};
    for (size_t i = 0; i < sizeof sharers / sizeof *sharers; i++) {
        uint32_t of = sharers[i];
        void *arguments[] = {&span, &map, &of};
        double ns = measured_span((const void *)shared_kernel, {sms, 1, 1, SLOTS * BOX_BYTES + SWIZZLE_ATOM},
                                  arguments, span);
        reportf("box_shared_ns", ns / (LAPS * K / COLUMNS), "ns a box", "\"sharers\": %u", of);
    }
    check("cudaFree", cudaFree(bytes));
}

/* Half of the SMs, or none, copy past the end; with each box comes a block from elsewhere. */
static void boxes_beside_blocks(unsigned char *bytes, uint64_t *span) {
    int sms = sm_count();
    unsigned char *blocks = zeroed(FAR_BYTES);
    for (uint32_t rows = 160; rows <= MOST_ROWS; rows += 96) {
        CUtensorMap map = strided_map(bytes, {COLUMNS, rows, K / COLUMNS}, {PITCH, COLUMNS * 2}, BOX_ROWS);
        for (int far = 0; far <= 1; far++) {
            struct end_plan plan = {(uint32_t)sms / 2, BOX_ROWS, blocks, far ? FAR_BYTES : NEAR_BYTES};
            void *arguments[] = {&span, &map, &plan};
            double ns =
                measured_span((const void *)end_kernel,
                              {sms, 1, 1, SLOTS * (BOX_BYTES + BESIDE_BYTES) + SWIZZLE_ATOM}, arguments, span);
            reportf("box_past_end_beside_ns", ns / (LAPS * K / COLUMNS), "ns a box",
                    "\"rows\": %u, \"beside\": \"%s\"", rows, far ? "HBM" : "L2");
        }
    }
    check("cudaFree", cudaFree(blocks));
}

void past_end(void) {
    int sms = sm_count();
    unsigned char *bytes;
    uint64_t *span = results(2);
    check("cudaMalloc", cudaMalloc((void **)&bytes, (size_t)MOST_ROWS * PITCH));
    check("cudaMemset", cudaMemset(bytes, 0, (size_t)MOST_ROWS * PITCH));
    for (uint32_t rows = 160; rows <= MOST_ROWS; rows += 32) {
        CUtensorMap map = strided_map(bytes, {COLUMNS, rows, K / COLUMNS}, {PITCH, COLUMNS * 2}, BOX_ROWS);
        for (int quarter = 1; quarter <= 4; quarter++) {
            struct end_plan plan = {(uint32_t)(sms - sms * quarter / 4), BOX_ROWS, NULL, 0};
            void *arguments[] = {&span, &map, &plan};
            double ns = measured_span((const void *)end_kernel, {sms, 1, 1, SLOTS * BOX_BYTES + SWIZZLE_ATOM},
                                      arguments, span);
            reportf("box_past_end_ns", ns / (LAPS * K / COLUMNS), "ns a box",
                    "\"rows\": %u, \"sms_past_end\": %d", rows, sms * quarter / 4);
        }
    }
    boxes_beside_blocks(bytes, span);
    check("cudaFree", cudaFree(bytes));
    shared_boxes();
}
