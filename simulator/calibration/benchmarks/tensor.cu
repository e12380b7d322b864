/* wgmma: cycles from issue to the end of its wait, and from one to the next, by N, source of A and warpgroups.
 * The accumulators live inside one asm block, so that one text serves every N; one of them is stored. Operands
 * are zeros: they save power but not cycles. */
#include "harness.cuh"

#define OPERAND_BYTES 65536 /* A: 64 x 16, B: up to 256 x 16, both K-major in 128-byte swizzled rows */
/* HW: 65,536 registers an SM, 255 a thread (CUDA programming guide): N = 192 and 256 leave room for two. */
#define WARPGROUPS_OF(n) ((n) > 128 ? 2 : 4)
#define FEW              4
#define MANY             20

/* Eight accumulators of a list. */
#define R8(b)           "d" #b "0,d" #b "1,d" #b "2,d" #b "3,d" #b "4,d" #b "5,d" #b "6,d" #b "7"
#define R16(a, b)       R8(a) "," R8(b)
#define R32(a, b, c, d) R16(a, b) "," R16(c, d)
#define ACC_8           "d00,d01,d02,d03"
#define ACC_16          R8(0)
#define ACC_32          R16(0, 1)
#define ACC_64          R32(0, 1, 2, 3)
#define ACC_96          ACC_64 "," R16(4, 5)
#define ACC_128         ACC_64 "," R32(4, 5, 6, 7)
#define ACC_192         ACC_128 "," R32(8, 9, a, b)
#define ACC_256         ACC_192 "," R32(c, d, e, f)

#define REPEAT_4(text)  text text text text
#define REPEAT_20(text) REPEAT_4(text) REPEAT_4(text) REPEAT_4(text) REPEAT_4(text) REPEAT_4(text)

#define F16_SHARED(n)                                                                                          \
    "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {" ACC_##n "}, %1, %2, 1, 1, 1, 0, 0;\n\t"
#define F16_REGISTERS(n)                                                                                       \
    "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {" ACC_##n                                         \
        "}, {%3, %4, %5, %6}, %2, 1, 1, 1, 0;\n\t"
#define E4M3_SHARED(n)                                                                                         \
    "wgmma.mma_async.sync.aligned.m64n" #n "k32.f32.e4m3.e4m3 {" ACC_##n "}, %1, %2, 1, 1, 1;\n\t"

/* One committed group of `repeat` MMAs on the same accumulators, from its fence to the end of its wait. */
#define DECLARED(n) "{.reg .f32 " ACC_##n ";\n\t"
#define MMAS(form, repeat, n)                                                                                  \
    asm volatile(DECLARED(n) "wgmma.fence.sync.aligned;\n\t" repeat(                                           \
                     form(n)) "wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;\n\t"       \
                              "mov.b32 %0, d00;\n\t}"                                                          \
                 : "=r"(kept)                                                                                  \
                 : "l"(a), "l"(b), "r"(fragment.x), "r"(fragment.y), "r"(fragment.z), "r"(fragment.w)          \
                 : "memory")

#define KERNEL(name, form, repeat, n)                                                                          \
    static __global__ void __launch_bounds__(WARPGROUPS_OF(n) * WARPGROUP_LANES, 1)                            \
        name(uint64_t *span, uint4 fragment) {                                                                 \
        extern __shared__ unsigned char memory[];                                                              \
        uint64_t a = operand(memory, 0), b = operand(memory, 8192);                                            \
        uint32_t kept = 0;                                                                                     \
        uint64_t start = 0, end = 0;                                                                           \
        _Pragma("unroll 1") for (int lap = 0; lap < 3; lap++) {                                                \
            __syncthreads();                                                                                   \
            start = clock64_now();                                                                             \
            MMAS(form, repeat, n);                                                                             \
            span[2] = kept; /* keeps the MMAs, which ptxas would drop */                                       \
            end = clock64_now();                                                                               \
        }                                                                                                      \
        __syncthreads(); /* keeps the notes of warps that are done from delaying other warps' stores */        \
        note_span(span, start, end);                                                                           \
    }

/* Descriptor of zeroed, swizzled rows. HW: layout as in gpu/instructions/wgmma.cuh. */
static __device__ __forceinline__ uint64_t operand(unsigned char *memory, uint32_t offset) {
    uint32_t misaligned = cvta_to_shared(memory) % SWIZZLE_ATOM;
    unsigned char *aligned = memory + (SWIZZLE_ATOM - misaligned) % SWIZZLE_ATOM;
    for (uint32_t i = threadIdx.x * 4; i < OPERAND_BYTES; i += blockDim.x * 4) {
        *(uint32_t *)(aligned + i) = 0;
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    uint32_t address = cvta_to_shared(aligned) + offset;
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)(SWIZZLE_ATOM >> 4) << 32 |
           (uint64_t)1 << 62;
}

#define KERNELS(n)                                                                                             \
    KERNEL(f16_shared_few_##n, F16_SHARED, REPEAT_4, n)                                                        \
    KERNEL(f16_shared_many_##n, F16_SHARED, REPEAT_20, n)                                                      \
    KERNEL(f16_registers_few_##n, F16_REGISTERS, REPEAT_4, n)                                                  \
    KERNEL(f16_registers_many_##n, F16_REGISTERS, REPEAT_20, n)                                                \
    KERNEL(e4m3_shared_few_##n, E4M3_SHARED, REPEAT_4, n)                                                      \
    KERNEL(e4m3_shared_many_##n, E4M3_SHARED, REPEAT_20, n)
KERNELS(8)
KERNELS(16)
KERNELS(32)
KERNELS(64)
KERNELS(96)
KERNELS(128)
KERNELS(192)
KERNELS(256)

static const struct form {
    const char *kind, *operand;
    int n;
    void (*few)(uint64_t *, uint4), (*many)(uint64_t *, uint4);
} forms[] = {
#define FORMS(n)                                                                                               \
    {"f16", "shared", n, f16_shared_few_##n, f16_shared_many_##n},                                             \
        {"f16", "registers", n, f16_registers_few_##n, f16_registers_many_##n},                                \
        {"e4m3", "shared", n, e4m3_shared_few_##n, e4m3_shared_many_##n},
    FORMS(8) FORMS(16) FORMS(32) FORMS(64) FORMS(96) FORMS(128) FORMS(192) FORMS(256)};

void tensor(void) {
    uint64_t *span = results(3);
    uint4 fragment = {0, 0, 0, 0};
    void *arguments[] = {&span, &fragment};
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) {
        for (int warpgroups = 1; warpgroups <= WARPGROUPS_OF(forms[f].n); warpgroups++) {
            struct shape shape = {1, warpgroups * WARPGROUP_LANES, 1, OPERAND_BYTES + SWIZZLE_ATOM};
            double few = measured_span((const void *)forms[f].few, shape, arguments, span);
            double many = measured_span((const void *)forms[f].many, shape, arguments, span);
            double interval = (many - few) / (MANY - FEW) / warpgroups;
            char parameters[128];
            snprintf(parameters, sizeof parameters,
                     "\"kind\": \"%s\", \"a\": \"%s\", \"n\": %d, \"warpgroups\": %d", forms[f].kind,
                     forms[f].operand, forms[f].n, warpgroups);
            report("wgmma_interval_cycles", parameters, interval, "cycles");
            report("wgmma_latency_cycles", parameters, few - (FEW * warpgroups - 1) * interval, "cycles");
        }
    }
}
