/* For each family of instructions: the latency of dependent ones, and how many an SM issues in a cycle. */
#include "harness.cuh"

#define SHORT_CHAIN 64
#define LONG_CHAIN  192
#define CHAINS      4 /* independent chains of a warp where the rate is measured */
#define ROUNDS      8 /* repetitions of the chain where the rate is measured */

/* One instruction a family, with operands that ptxas cannot fold. Pairs are two instructions. */
struct operands {
    uint32_t x, y, z, w;
};

#define FAMILY(name, instructions, text)                                                                       \
    struct name {                                                                                              \
        static constexpr int count = instructions;                                                             \
        static constexpr const char *spelled = #name;                                                          \
        static __device__ __forceinline__ void apply(struct operands &o) {                                     \
            asm volatile(text : "+r"(o.x) : "r"(o.y), "r"(o.z), "r"(o.w));                                     \
        }                                                                                                      \
    };

namespace family {
FAMILY(mad_u32, 1, "mad.lo.u32 %0, %0, %1, %2;")
FAMILY(mad_wide_high, 1, "mad.hi.u32 %0, %0, %1, %2;")
FAMILY(lop3_pair, 2, "lop3.b32 %0, %0, %1, %2, 0x6a; lop3.b32 %0, %0, %3, %1, 0x6a;")
FAMILY(add_prmt, 2, "add.u32 %0, %0, %1; prmt.b32 %0, %0, %2, %3;")
FAMILY(prmt, 1, "prmt.b32 %0, %0, %1, %2;")
FAMILY(shf, 1, "shf.l.wrap.b32 %0, %0, %1, %2;")
FAMILY(popc, 1, "popc.b32 %0, %0;")
FAMILY(setp_selp, 2, "{.reg .pred p; setp.lt.u32 p, %0, %1; selp.u32 %0, %2, %3, p;}")
FAMILY(add_f32, 1, "{.reg .f32 a, b; mov.b32 a, %0; mov.b32 b, %1; add.f32 a, a, b; mov.b32 %0, a;}")
FAMILY(mul_f32, 1, "{.reg .f32 a, b; mov.b32 a, %0; mov.b32 b, %1; mul.f32 a, a, b; mov.b32 %0, a;}")
FAMILY(
    fma_f32, 1,
    "{.reg .f32 a, b, c; mov.b32 a, %0; mov.b32 b, %1; mov.b32 c, %2; fma.rn.f32 a, a, b, c; mov.b32 %0, a;}")
FAMILY(mul_f16x2, 1, "mul.rn.f16x2 %0, %0, %1;")
FAMILY(fma_f16x2, 1, "fma.rn.f16x2 %0, %0, %1, %2;")
FAMILY(ex2_f32, 1, "{.reg .f32 a; mov.b32 a, %0; ex2.approx.ftz.f32 a, a; mov.b32 %0, a;}")
FAMILY(
    rcp_add_f32, 2,
    "{.reg .f32 a, b; mov.b32 a, %0; mov.b32 b, %1; rcp.approx.ftz.f32 a, a; add.f32 a, a, b; mov.b32 %0, a;}")
FAMILY(cvt_f16x2_f32, 1, "{.reg .f32 a, b; mov.b32 a, %0; mov.b32 b, %1; cvt.rn.f16x2.f32 %0, a, b;}")
FAMILY(cvt_f16x2_e4m3x2, 1, "{.reg .b16 l, h; mov.b32 {l, h}, %0; cvt.rn.f16x2.e4m3x2 %0, l;}")
FAMILY(cvt_f32_u32, 1, "{.reg .f32 a; cvt.rn.f32.u32 a, %0; mov.b32 %0, a;}")
FAMILY(shfl, 1, "shfl.sync.idx.b32 %0, %0, %0, 31, 0xffffffff;")
FAMILY(vote, 1, "{.reg .pred p; setp.lt.u32 p, %0, %1; vote.sync.ballot.b32 %0, p, 0xffffffff;}")
FAMILY(redux, 1, "redux.sync.add.u32 %0, %0, 0xffffffff;")
FAMILY(elect, 1, "{.reg .pred p; .reg .b32 l; elect.sync l|p, 0xffffffff; selp.u32 %0, l, %0, p;}")
} // namespace family

template <class Family, int length>
static __global__ void latency_kernel(uint64_t *span, uint32_t y, uint32_t z, uint32_t w) {
    struct operands o = {threadIdx.x, y, z, w};
    uint64_t start = 0;
#pragma unroll 1
    for (int lap = 0; lap < 2; lap++) { /* the first lap only fetches the code */
        start = clock64_now();
#pragma unroll
        for (int i = 0; i < length; i++) {
            Family::apply(o);
        }
        span[2] = o.x; /* waits for the end of the chain before the clock is read */
        span[1] = clock64_now();
    }
    if (threadIdx.x == 0) {
        span[0] = start;
    }
}

template <class Family> static __global__ void rate_kernel(uint64_t *span, uint32_t y, uint32_t z, uint32_t w) {
    struct operands o[CHAINS];
    for (int c = 0; c < CHAINS; c++) {
        o[c] = {threadIdx.x + (uint32_t)c, y, z, w};
    }
    uint64_t start = 0;
#pragma unroll 1
    for (int lap = 0; lap < 2; lap++) {
        __syncthreads();
        start = clock64_now();
        for (int round = 0; round < ROUNDS; round++) {
#pragma unroll
            for (int i = 0; i < SHORT_CHAIN; i++) {
                for (int c = 0; c < CHAINS; c++) {
                    Family::apply(o[c]);
                }
            }
        }
    }
    uint64_t end = clock64_now();
    span[2] = o[0].x + o[1].x + o[2].x + o[3].x;
    note_span(span, start, end);
}

template <class Family> static void measure(void) {
    uint64_t *span = results(3);
    uint32_t y = 0x3f8ccccd, z = 0x3f99999a, w = 0x01020304;
    void *arguments[] = {&span, &y, &z, &w};
    char parameters[128];
    snprintf(parameters, sizeof parameters, "\"family\": \"%s\"", Family::spelled);
    struct shape one_warp = {1, WARP_LANES, 1, 0};
    double brief = measured_span((const void *)latency_kernel<Family, SHORT_CHAIN>, one_warp, arguments, span);
    double more = measured_span((const void *)latency_kernel<Family, LONG_CHAIN>, one_warp, arguments, span);
    report("alu_latency_cycles", parameters, (more - brief) / (LONG_CHAIN - SHORT_CHAIN), "cycles");
    static const int warps[] = {1, 4, 8, 16};
    for (size_t i = 0; i < sizeof warps / sizeof *warps; i++) {
        struct shape shape = {1, warps[i] * WARP_LANES, 1, 0};
        double cycles = measured_span((const void *)rate_kernel<Family>, shape, arguments, span);
        double instructions = (double)warps[i] * ROUNDS * SHORT_CHAIN * CHAINS * Family::count;
        snprintf(parameters, sizeof parameters, "\"family\": \"%s\", \"warps\": %d", Family::spelled, warps[i]);
        report("alu_rate", parameters, instructions / cycles, "warp instructions a cycle");
    }
}

void alu(void) {
    measure<family::mad_u32>();
    measure<family::mad_wide_high>();
    measure<family::lop3_pair>();
    measure<family::add_prmt>();
    measure<family::prmt>();
    measure<family::shf>();
    measure<family::popc>();
    measure<family::setp_selp>();
    measure<family::add_f32>();
    measure<family::mul_f32>();
    measure<family::fma_f32>();
    measure<family::mul_f16x2>();
    measure<family::fma_f16x2>();
    measure<family::ex2_f32>();
    measure<family::rcp_add_f32>();
    measure<family::cvt_f16x2_f32>();
    measure<family::cvt_f16x2_e4m3x2>();
    measure<family::cvt_f32_u32>();
    measure<family::shfl>();
    measure<family::vote>();
    measure<family::redux>();
    measure<family::elect>();
}
