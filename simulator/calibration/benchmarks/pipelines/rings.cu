/* Rings that warps fill with cp.async while they use them, as the narrow Hopper kernel does: a lane reads what
 * it copied itself, issues the next copy at once, and computes or multiplies with what it read. */
#include "../../../submission/gpu/instructions/wgmma.cuh"
#include "../../../submission/gpu/instructions/wgmma_descriptors.h"
#include "harness.cuh"

#define FEW_LAPS  4
#define MANY_LAPS 16
/* laps of a phase, in which a thread makes a part of the operand that all warps share */
#define PHASE_LAPS   2
#define STAGES       2
#define MOST_GROUPS  4
#define MOST_THREADS (MOST_GROUPS * WARPGROUP_LANES)
#define GROUP_WARPS  4
#define ROWS         8    /* rows that a warp's copy touches, 64 bytes of each */
#define ROW_BYTES    4096 /* bytes from one row to the next */
#define TENSOR_BYTES ((size_t)128 << 20)
#define SCALE_BYTES  ((size_t)32 << 20)
#define CTA_SCALES   65536 /* scales of a CTA: 512 bytes for each 32 bytes of a row */
#define SCALE_TILE   512
/* number of CTAs' sources where they come from L2: later CTAs read the same ones */
#define NEAR_CTAS     8
#define UNIT_BYTES    512  /* a warp's copy: 16 bytes a lane */
#define WORD_BYTES    128  /* 4 bytes a lane */
#define OPERAND_BLOCK 2048 /* bytes of 8 rows of 128 halves, as core matrices */
#define N             32   /* columns of the products: blocks of 8 */
#define UNITS         2    /* units of the shared operand that a thread makes in a phase */
#define CORE_MATRIX   128
/* bytes of the operand made in a phase */
#define OPERAND_BYTES (UNITS * MOST_THREADS / WARP_LANES * OPERAND_BLOCK)
/* bytes of the operand where no thread makes any */
#define ONE_OPERAND (N / 8 * OPERAND_BLOCK)
#define CTAS        96 /* as for 32 rows of A and weights of 3072 rows */
#define SIGNS       0x80808080
#define HALVES      0x8e008e00

enum reader { READS_NOTHING, READS, COMPUTES, MULTIPLIES, MULTIPLIES_IN_PLACE };
static const char *const reader_names[] = {"nothing", "ld.shared", "and dequantizes",
                                           "and wgmma, A in registers", "wgmma, A in the ring"};

struct ring_plan {
    const unsigned char *bytes, *scales;
    /* lap_bytes: from a copy's bytes of a row to the next lap's */
    uint32_t laps, warpgroups, row_bytes, lap_bytes;
    uint32_t ctas;        /* CTAs whose source bytes differ */
    uint32_t flat_scales; /* the words of a copy of scales follow each other */
};

/* A lane's part of a stage. */
template <int rows> struct packed {
    uint4 words[rows];
    uint32_t scales[rows];
};

template <int rows> struct from {
    const unsigned char *bytes[rows], *scales;
};

/* Eight values of 4 bits as halves times a scale: three to four instructions for two of them. */
static __device__ __forceinline__ void dequantize(uint32_t word, uint32_t scale, uint32_t (&pairs)[4]) {
    uint32_t odd = (word & SIGNS) | ((word >> 3) & ~SIGNS),
             even = ((word * 16) & SIGNS) | ((word * 2) & ~SIGNS);
    uint32_t halves[4] = {(even * 256) & HALVES, (odd * 256) & HALVES, even & HALVES, odd & HALVES};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(pairs[i]) : "r"(halves[i]), "r"(scale));
    }
}

static __device__ __forceinline__ uint32_t word_of(uint4 words, int i) {
    return i == 0 ? words.x : i == 1 ? words.y : i == 2 ? words.z : words.w;
}

/* apart: bytes from one of the warp's copies to the next. */
template <int rows, bool scaled, int apart>
static __device__ __forceinline__ void fill(uint32_t stage, const struct from<rows> &from,
                                            const struct ring_plan &plan, uint32_t lap, int lane) {
    if (lap < plan.laps) {
        uint32_t step = lap * plan.warpgroups;
#pragma unroll
        for (int i = 0; i < rows; i++) {
            cp_async_cg_16(stage + i * apart + lane * 16, from.bytes[i] + (uint64_t)step * plan.lap_bytes);
            if (scaled) {
                cp_async_ca_4(stage + rows * UNIT_BYTES + i * WORD_BYTES + lane * 4,
                              from.scales + i * (SCALE_BYTES / rows) + (uint64_t)step * 2 * SCALE_TILE);
            }
        }
    }
    cp_async_commit_group();
}

template <int rows, bool scaled>
static __device__ __forceinline__ void read_stage(struct packed<rows> &packed, uint32_t stage, int lane) {
#pragma unroll
    for (int i = 0; i < rows; i++) {
        packed.words[i] = ld_shared_v4(stage + i * UNIT_BYTES + lane * 16);
        packed.scales[i] =
            scaled ? ld_shared_u16(stage + rows * UNIT_BYTES + i * WORD_BYTES + lane * 4) : packed.words[i].x;
    }
}

template <int rows>
static __device__ __forceinline__ void dequantize_part(uint32_t (&fragments)[rows][4],
                                                       const struct packed<rows> &packed, int word) {
#pragma unroll
    for (int i = 0; i < rows; i++) { /* rows come in pairs: those of one MMA's A */
        uint32_t pairs[4];
        dequantize(word_of(packed.words[i], word), packed.scales[i], pairs);
        fragments[i / 2 * 2][i % 2] = pairs[0];
        fragments[i / 2 * 2][2 + i % 2] = pairs[1];
        fragments[i / 2 * 2 + 1][i % 2] = pairs[2];
        fragments[i / 2 * 2 + 1][2 + i % 2] = pairs[3];
    }
}

/* Dequantizes a stage; products run on while the next part is made. */
template <enum reader reader, int rows>
static __device__ __forceinline__ void use(float (&sums)[rows / 2][N / 2], uint32_t (&fragments)[2][rows][4],
                                           const struct packed<rows> &packed, uint32_t operand,
                                           uint32_t &kept) {
    uint64_t b = wgmma_core_matrix_descriptor(operand, CORE_MATRIX, OPERAND_BLOCK);
#pragma unroll
    for (int word = 0; word < 4; word++) {
        uint32_t (&made)[rows][4] = fragments[word % 2];
        dequantize_part<rows>(made, packed, word);
        if constexpr (reader == MULTIPLIES) {
            wgmma_fence();
#pragma unroll
            for (int i = 0; i < rows; i++) {
                wgmma_m64k16<N>::mma_async(sums[i / 2], made[i],
                                           wgmma_descriptor_plus(b, (2 * word + i % 2) * 2 * CORE_MATRIX), 1);
            }
            wgmma_commit_group();
            wgmma_wait_group<1>();
        } else {
#pragma unroll
            for (int i = 0; i < rows; i++) {
                kept ^= made[i][0] ^ made[i][1] ^ made[i][2] ^ made[i][3];
            }
        }
    }
}

/* ---- A in the ring itself ---- */

static __device__ __forceinline__ void multiply_shared(float (&d)[N / 2], uint64_t a, uint64_t b) {
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, 1, 1, 1, 0, "
        "0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
          "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
        : "l"(a), "l"(b));
}

/* A copy is 16 rows of 16 halves: those of the warp's part of one MMA's A, whose other rows are other warps'.
 * `stage`: the warpgroup's. */
template <int rows>
static __device__ __forceinline__ void use_in_place(float (&sums)[rows / 2][N / 2], uint32_t stage,
                                                    uint32_t operand) {
    uint64_t b = wgmma_core_matrix_descriptor(operand, CORE_MATRIX, OPERAND_BLOCK);
    fence_proxy_async_shared();
    bar_sync(1 + threadIdx.x / WARPGROUP_LANES, WARPGROUP_LANES);
    wgmma_fence();
#pragma unroll
    for (int i = 0; i < rows; i++) {
        uint64_t a =
            wgmma_core_matrix_descriptor(stage + i * GROUP_WARPS * UNIT_BYTES, CORE_MATRIX, 2 * CORE_MATRIX);
        multiply_shared(sums[i / 2], a, wgmma_descriptor_plus(b, i * 2 * CORE_MATRIX));
    }
    wgmma_commit_group();
    wgmma_wait_group<0>();
}

/* ---- the operand that all warps share ---- */

struct units {
    uint4 words[UNITS];
    uint32_t scales[UNITS];
};

static __device__ __forceinline__ void load_units(struct units &units, const struct ring_plan &plan,
                                                  uint32_t lap) {
    uint32_t warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
#pragma unroll
    for (int i = 0; i < UNITS; i++) {
        uint32_t block = warp + i * blockDim.x / WARP_LANES, row = block % (N / 8) * ROWS + lane / 4;
        const unsigned char *at = plan.bytes + row * ROW_BYTES + (lap + block / (N / 8)) * 64 + lane % 4 * 16;
        units.words[i] = *(const uint4 *)at;
        units.scales[i] = *(const uint16_t *)(plan.scales + lap * 2 * SCALE_TILE + row * 16 + lane % 4 * 4);
    }
}

static __device__ __forceinline__ void store_units(uint32_t operand, const struct units &units) {
    uint32_t warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
#pragma unroll
    for (int i = 0; i < UNITS; i++) {
        uint32_t to = operand + (warp + i * blockDim.x / WARP_LANES) * OPERAND_BLOCK + lane * 16;
#pragma unroll
        for (int word = 0; word < 4; word++) {
            uint32_t pairs[4];
            dequantize(word_of(units.words[i], word), units.scales[i], pairs);
            stmatrix_x4(to + word * 4 * CORE_MATRIX, pairs);
        }
    }
    fence_proxy_async_shared();
}

/* ---- kernel ---- */

template <int rows>
static __device__ __forceinline__ struct from<rows> find_rows(const struct ring_plan &plan, uint32_t warp,
                                                              uint32_t lane) {
    uint32_t cta = blockIdx.x % plan.ctas, of_group = warp % GROUP_WARPS, share = warp / GROUP_WARPS;
    uint32_t row = (cta * GROUP_WARPS + of_group) * ROWS;
    struct from<rows> from;
#pragma unroll
    for (int i = 0; i < rows; i++) {
        from.bytes[i] = plan.bytes + i * (TENSOR_BYTES / rows) + (uint64_t)row * ROW_BYTES +
                        lane / 4 * plan.row_bytes + share * plan.lap_bytes + lane % 4 * 16;
    }
    const uint32_t in_tiles =
        (share * 2 + lane % 4 / 2) * SCALE_TILE + of_group * 32 + lane / 4 % 2 * 16 + lane / 8 * 4;
    from.scales =
        plan.scales + cta * CTA_SCALES +
        (plan.flat_scales != 0 ? share * 2 * SCALE_TILE + of_group * WORD_BYTES + lane * 4 : in_tiles);
    return from;
}

/* Where a warp's ring is, and how far a stage and a copy of it are from the next: in place a warp's part of
 * a copy lies beside those of its warpgroup's other warps. */
template <enum reader reader, int rows> struct place {
    static constexpr bool in_place = reader == MULTIPLIES_IN_PLACE;
    static constexpr int copy_bytes = in_place ? GROUP_WARPS * UNIT_BYTES : UNIT_BYTES;
    static constexpr int stage_bytes = rows * (in_place ? copy_bytes : UNIT_BYTES + WORD_BYTES);
    static __device__ __forceinline__ uint32_t ring(uint32_t rings, uint32_t warp) {
        return in_place ? rings + warp / GROUP_WARPS * STAGES * stage_bytes + warp % GROUP_WARPS * UNIT_BYTES
                        : rings + warp * STAGES * stage_bytes;
    }
};

/* Consumes one stage of the ring; it is refilled as soon as the reads permit. */
template <enum reader reader, int rows, bool scaled>
static __device__ __forceinline__ void
take_stage(float (&sums)[rows / 2][N / 2], uint32_t (&fragments)[2][rows][4], uint32_t stage, uint32_t operand,
           const struct from<rows> &from, const struct ring_plan &plan, uint32_t lap, uint32_t &kept) {
    constexpr int apart = place<reader, rows>::copy_bytes;
    const uint32_t lane = threadIdx.x % WARP_LANES, warp = threadIdx.x / WARP_LANES;
    struct packed<rows> packed;
    if constexpr (reader == MULTIPLIES_IN_PLACE) {
        use_in_place<rows>(sums, stage - warp % GROUP_WARPS * UNIT_BYTES, operand);
    } else if constexpr (reader != READS_NOTHING) {
        read_stage<rows, scaled>(packed, stage, lane);
    }
    fill<rows, scaled, apart>(stage, from, plan, lap + STAGES, lane);
    if constexpr (reader == READS) {
#pragma unroll
        for (int i = 0; i < rows; i++) {
            kept ^= packed.words[i].x ^ packed.words[i].w ^ packed.scales[i];
        }
    } else if constexpr (reader == COMPUTES || reader == MULTIPLIES) {
        use<reader, rows>(sums, fragments, packed, operand, kept);
    }
}

template <enum reader reader, int rows, bool scaled, bool phases>
static __global__ void __launch_bounds__(MOST_THREADS, 1) ring_kernel(uint64_t *span, struct ring_plan plan) {
    extern __shared__ __align__(128) unsigned char memory[];
    using where = place<reader, rows>;
    const uint32_t warp = __shfl_sync(~0u, threadIdx.x / WARP_LANES, 0), lane = threadIdx.x % WARP_LANES;
    constexpr uint32_t operand_bytes = phases ? 2 * OPERAND_BYTES : ONE_OPERAND;
    const uint32_t operand = cvta_to_shared(memory), ring = where::ring(operand + operand_bytes, warp);
    const struct from<rows> from = find_rows<rows>(plan, warp, lane);
    float sums[rows / 2][N / 2];
    uint32_t fragments[2][rows][4];
    struct units units;
    uint32_t kept = 0; /* keeps values that are not multiplied, which ptxas would drop */
#pragma unroll
    for (int i = 0; i < rows / 2 * N / 2; i++) {
        sums[i / (N / 2)][i % (N / 2)] = 0;
    }
    for (uint32_t i = threadIdx.x * 4; i < operand_bytes; i += blockDim.x * 4) {
        st_shared_u32(operand + i, 0);
    }
    fence_proxy_async_shared();
    __syncthreads();
    uint64_t start = clock64_now();
    for (uint32_t lap = 0; lap < STAGES; lap++) {
        fill<rows, scaled, where::copy_bytes>(ring + lap * where::stage_bytes, from, plan, lap, lane);
    }
#pragma unroll 1
    for (uint32_t lap = 0; lap < plan.laps; lap++) {
        const uint32_t half = phases ? lap / PHASE_LAPS % 2 * OPERAND_BYTES : 0;
        if (phases && lap % PHASE_LAPS == 0) {
            load_units(units, plan, lap);
        }
        cp_async_wait_group<STAGES - 1>();
        take_stage<reader, rows, scaled>(sums, fragments, ring + lap % STAGES * where::stage_bytes,
                                         operand + half, from, plan, lap, kept);
        if (phases && lap % PHASE_LAPS == PHASE_LAPS - 1) {
            wgmma_wait_group<0>();
            store_units(operand + OPERAND_BYTES - half, units);
            __syncthreads();
        }
    }
    wgmma_wait_group<0>();
    uint64_t end = clock64_now();
#pragma unroll
    for (int i = 0; i < rows / 2 * N / 2; i++) {
        keep_after_wait(sums[i / (N / 2)][i % (N / 2)]);
    }
#pragma unroll
    for (int i = 0; i < rows / 2; i++) {
        kept ^= __float_as_uint(sums[i][0]);
    }
    __syncthreads();
    if (blockIdx.x == 0) { /* one CTA only: the SMs' clocks differ */
        span[2 + threadIdx.x % 2] = kept;
        note_span(span, start, end);
    }
}

/* ---- rows ---- */

struct memory {
    unsigned char *bytes, *scales;
};

static double span_cycles(const void *kernel, struct ring_plan plan, int shared_bytes, int ctas, bool far) {
    uint64_t *words = results(4);
    void *arguments[] = {&words, &plan};
    double cycles[LAUNCHES];
    for (int i = -WARM_UP_LAUNCHES; i < LAUNCHES; i++) {
        uint64_t span[2] = {UINT64_MAX, 0};
        if (far) {
            replace_l2();
        }
        check("cudaMemcpy", cudaMemcpy(words, span, sizeof span, cudaMemcpyHostToDevice));
        launch(kernel, {ctas, (int)plan.warpgroups * WARPGROUP_LANES, 1, shared_bytes}, arguments);
        check("cudaMemcpy", cudaMemcpy(span, words, sizeof span, cudaMemcpyDeviceToHost));
        if (i >= 0) {
            cycles[i] = (double)(span[1] - span[0]);
        }
    }
    return median(cycles, LAUNCHES);
}

/* Parameters of a row of the table, besides the kernel's template arguments. */
struct row {
    uint32_t warpgroups;
    int ctas;
    bool far, whole_lines, flat_scales;
};

static struct ring_plan plan_of(const struct memory &memory, const struct row &row, uint32_t laps) {
    struct ring_plan plan;
    plan.bytes = memory.bytes;
    plan.scales = memory.scales;
    plan.laps = laps;
    plan.warpgroups = row.warpgroups;
    plan.row_bytes = row.whole_lines ? UNIT_BYTES / ROWS : ROW_BYTES;
    plan.lap_bytes = row.whole_lines ? UNIT_BYTES : UNIT_BYTES / ROWS;
    plan.ctas = row.far ? row.ctas : NEAR_CTAS;
    plan.flat_scales = row.flat_scales;
    return plan;
}

/* Cycles of a lap of all warps, from the difference between runs of two lengths. */
template <enum reader reader, int rows, bool scaled, bool phases>
static void measure(const struct memory &memory, const struct row &row) {
    const void *kernel = (const void *)ring_kernel<reader, rows, scaled, phases>;
    const int shared_bytes = (phases ? 2 * OPERAND_BYTES : ONE_OPERAND) +
                             STAGES * MOST_THREADS / WARP_LANES * rows * (UNIT_BYTES + WORD_BYTES);
    double few = span_cycles(kernel, plan_of(memory, row, FEW_LAPS), shared_bytes, row.ctas, row.far);
    double many = span_cycles(kernel, plan_of(memory, row, MANY_LAPS), shared_bytes, row.ctas, row.far);
    reportf("async_ring_lap_cycles", (many - few) / (MANY_LAPS - FEW_LAPS), "cycles",
            "\"reads\": \"%s\", \"copies\": %d, \"scales\": \"%s\", \"whole_lines\": %d, \"phases\": %d, "
            "\"warpgroups\": %u, \"ctas\": %d, \"memory\": \"%s\"",
            reader_names[reader], rows,
            !scaled           ? "none"
            : row.flat_scales ? "flat"
                              : "in tiles",
            row.whole_lines, phases, row.warpgroups, row.ctas, row.far ? "HBM" : "L2");
}

void rings(void) {
    struct memory memory;
    check("cudaMalloc", cudaMalloc((void **)&memory.bytes, TENSOR_BYTES));
    check("cudaMalloc", cudaMalloc((void **)&memory.scales, SCALE_BYTES));
    check("cudaMemset", cudaMemset(memory.bytes, 0, TENSOR_BYTES));
    check("cudaMemset", cudaMemset(memory.scales, 0, SCALE_BYTES));
    for (uint32_t warpgroups = 1; warpgroups <= MOST_GROUPS; warpgroups *= 2) {
        measure<READS, 2, true, false>(memory, {warpgroups, 1});
        measure<COMPUTES, 2, true, false>(memory, {warpgroups, 1});
        measure<MULTIPLIES, 2, true, false>(memory, {warpgroups, 1});
    }
    measure<MULTIPLIES_IN_PLACE, 2, false, false>(memory, {1, 1});
    measure<MULTIPLIES_IN_PLACE, 2, false, false>(memory, {4, 1});
    measure<READS_NOTHING, 8, false, false>(memory, {4, 1});
    measure<READS_NOTHING, 8, false, false>(memory, {4, 1, false, true});
    measure<READS_NOTHING, 8, true, false>(memory, {4, 1});
    measure<READS_NOTHING, 8, true, false>(memory, {4, 1, false, false, true});
    measure<READS_NOTHING, 8, true, false>(memory, {1, 1});
    measure<READS, 8, false, false>(memory, {4, 1});
    measure<READS, 8, false, false>(memory, {4, 1, false, true});
    measure<READS, 8, true, false>(memory, {4, 1});
    measure<MULTIPLIES, 4, true, false>(memory, {4, 1});
    measure<MULTIPLIES, 2, true, true>(memory, {4, 1});
    for (int far = 0; far < 2; far++) {
        measure<READS, 2, true, false>(memory, {4, CTAS, far != 0});
        measure<MULTIPLIES, 2, true, false>(memory, {4, CTAS, far != 0});
        measure<MULTIPLIES, 2, true, true>(memory, {4, CTAS, far != 0});
    }
    measure<MULTIPLIES, 2, true, false>(memory, {1, CTAS, true});
    check("cudaFree", cudaFree(memory.bytes));
    check("cudaFree", cudaFree(memory.scales));
}
