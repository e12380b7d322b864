/* Waits of a warp on things that no arithmetic pipe computes: special registers, constants, and the code at a
 * branch's target. */
#include "harness.cuh"

#define FEW_LAPS    16
#define MANY_LAPS   80
#define READS       8 /* dependent reads in a lap */
#define BRANCHES    8 /* branches in a lap, all taken */
#define ENTRIES     16
#define NEVER       77
#define INSTRUCTION 16 /* HW: bytes of an instruction (CUDA binary utilities, sm_70 and later) */

struct constants {
    uint32_t of[ENTRIES];
};

enum asked { WARP_ID, SM_ID, CONSTANT, CONSTANTS };
static const char *const asked_names[] = {"%warpid", "%smid", "a constant", "a constant a lane"};

template <enum asked asked>
static __device__ __forceinline__ uint32_t answer(const struct constants &constants, uint32_t x) {
    uint32_t answer;
    if constexpr (asked == WARP_ID) {
        asm volatile("mov.u32 %0, %%warpid;" : "=r"(answer));
    } else if constexpr (asked == SM_ID) {
        asm volatile("mov.u32 %0, %%smid;" : "=r"(answer));
    } else {
        answer = constants.of[x % ENTRIES];
    }
    return answer;
}

/* A lap reads %smid only once: ptxas would issue several reads at once. */
template <enum asked asked>
static __global__ void answer_kernel(uint64_t *span, uint32_t laps,
                                     const __grid_constant__ struct constants constants) {
    uint32_t x = asked == CONSTANTS ? threadIdx.x : threadIdx.x / WARP_LANES;
    uint64_t start = clock64_now();
#pragma unroll 1
    for (uint32_t lap = 0; lap < laps; lap++) {
#pragma unroll
        for (int i = 0; i < (asked == SM_ID ? 1 : READS); i++) {
            x += answer<asked>(constants, x);
        }
    }
    span[2] = x; /* waits for x before the clock is read */
    note_span(span, start, clock64_now());
}

template <int skipped> static __global__ void branch_kernel(uint64_t *span, uint32_t laps, uint32_t zero) {
    uint32_t x = threadIdx.x;
    uint64_t start = clock64_now();
#pragma unroll 1
    for (uint32_t lap = 0; lap < laps; lap++) {
#pragma unroll
        for (int i = 0; i < BRANCHES; i++) {
            if (zero == NEVER + i) {
#pragma unroll
                for (int k = 0; k < skipped / INSTRUCTION; k++) {
                    asm volatile("prmt.b32 %0, %0, %1, 0x3021;" : "+r"(x) : "r"(zero));
                }
            }
        }
    }
    span[2] = x;
    note_span(span, start, clock64_now());
}

/* Cycles of a lap, from the difference between runs of two lengths; `last` is the kernel's third argument. */
static double lap_cycles(const void *kernel, void *last) {
    uint64_t *span = results(3);
    double cycles[2];
    for (int many = 0; many < 2; many++) {
        uint32_t laps = many ? MANY_LAPS : FEW_LAPS;
        void *arguments[] = {&span, &laps, last};
        cycles[many] = measured_span(kernel, {1, WARP_LANES, 1, 0}, arguments, span);
    }
    return (cycles[1] - cycles[0]) / (MANY_LAPS - FEW_LAPS);
}

template <enum asked asked> static void measure_answer(void) {
    struct constants constants = {{0}};
    reportf("answer_cycles", lap_cycles((const void *)answer_kernel<asked>, &constants), "cycles",
            "\"asked\": \"%s\", \"reads\": %d", asked_names[asked], asked == SM_ID ? 1 : READS);
}

template <int skipped> static void measure_branch(void) {
    uint32_t zero = 0;
    char parameters[96];
    snprintf(parameters, sizeof parameters, "\"branches\": %d, \"skipped_bytes\": %d", BRANCHES, skipped);
    report("taken_branch_cycles", parameters, lap_cycles((const void *)branch_kernel<skipped>, &zero),
           "cycles");
}

void answers(void) {
    measure_answer<WARP_ID>();
    measure_answer<SM_ID>();
    measure_answer<CONSTANT>();
    measure_answer<CONSTANTS>();
    measure_branch<256>();
    measure_branch<1024>();
}
