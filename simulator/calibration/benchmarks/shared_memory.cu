/* Shared memory of one SM: latency of a load, bytes a cycle by width, and the cost of bank conflicts. */
#include "harness.cuh"

#define CHASE_SHORT  32
#define CHASE_LONG   160
#define ACCESSES     64 /* accesses of a warp in the unrolled loop whose rate is measured */
#define ROUNDS       8
#define ACCESS_STEP  512    /* bytes from one access of a lane to its next */
#define BANK_WORDS   32     /* HW: 32 banks of 4 bytes (CUDA programming guide) */
#define WARP_BYTES   8192   /* bytes that a warp writes to */
#define SHARED_BYTES 131072 /* bytes of dynamic shared memory */

enum shared_access { LOAD_4, LOAD_8, LOAD_16, STORE_4, STORE_16, LDMATRIX_X4, STMATRIX_X4, ACCESSES_KINDS };
static const char *const access_names[] = {"ld.b32",    "ld.v2.b32",   "ld.v4.b32",  "st.b32",
                                           "st.v4.b32", "ldmatrix.x4", "stmatrix.x4"};
static const int access_bytes[] = {4, 8, 16, 4, 16, 16, 16}; /* bytes that a lane accesses */

/* Each lane follows a pointer that points at itself. */
template <int length> static __global__ void chase_kernel(uint64_t *span) {
    extern __shared__ unsigned char memory[];
    uint32_t address = cvta_to_shared(memory) + threadIdx.x * 4;
    asm volatile("st.shared.u32 [%0], %0;" ::"r"(address) : "memory");
    __syncwarp();
    uint64_t start = 0, end = 0;
#pragma unroll 1
    for (int lap = 0; lap < 2; lap++) {
        start = clock64_now();
#pragma unroll
        for (int i = 0; i < length; i++) {
            asm volatile("ld.shared.u32 %0, [%0];" : "+r"(address)::"memory");
        }
        span[2] = address;
        end = clock64_now();
    }
    if (threadIdx.x == 0) {
        span[0] = start;
        span[1] = end;
    }
}

template <enum shared_access kind> static __device__ __forceinline__ void touch(uint32_t address, uint4 &sum) {
    uint4 v = {0, 0, 0, 0};
    switch (kind) {
    case LOAD_4:
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v.x) : "r"(address) : "memory");
        break;
    case LOAD_8:
        asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "r"(address) : "memory");
        break;
    case LOAD_16:
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                     : "r"(address)
                     : "memory");
        break;
    case STORE_4:
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(sum.x) : "memory");
        break;
    case STORE_16:
        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(sum.x), "r"(sum.y),
                     "r"(sum.z), "r"(sum.w)
                     : "memory");
        break;
    case LDMATRIX_X4:
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                     : "r"(address)
                     : "memory");
        break;
    default:
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
                     "r"(sum.x), "r"(sum.y), "r"(sum.z), "r"(sum.w)
                     : "memory");
        break;
    }
    sum.x ^= v.x;
    sum.y ^= v.y;
    sum.z ^= v.z;
    sum.w ^= v.w;
}

/* `step` bytes between lanes. All warps load the same bytes; the loads of a round have different offsets, since
 * ptxas would merge equal ones. Each warp stores to bytes of its own. */
template <enum shared_access kind>
static __global__ void shared_rate_kernel(uint64_t *span, uint32_t step, uint32_t round_step) {
    extern __shared__ unsigned char memory[];
    for (uint32_t i = threadIdx.x * 4; i < SHARED_BYTES; i += blockDim.x * 4) {
        *(uint32_t *)(memory + i) = i;
    }
    uint32_t base = cvta_to_shared(memory);
    constexpr bool writes = kind == STORE_4 || kind == STORE_16 || kind == STMATRIX_X4;
    uint32_t address = base + threadIdx.x % WARP_LANES * step;
    if (writes) {
        address += threadIdx.x / WARP_LANES * WARP_BYTES;
    }
    uint4 sum = {threadIdx.x, 1, 2, 3};
    uint64_t start = 0;
#pragma unroll 1
    for (int lap = 0; lap < 2; lap++) {
        __syncthreads();
        start = clock64_now();
#pragma unroll 1
        for (int round = 0; round < ROUNDS; round++) {
#pragma unroll
            for (int i = 0; i < ACCESSES; i++) {
                touch<kind>(address + (writes ? i % 4 : i) * ACCESS_STEP, sum);
            }
            address += round_step; /* zero, which the compiler does not know */
        }
        span[2] = sum.x ^ sum.y ^ sum.z ^ sum.w;
    }
    note_span(span, start, clock64_now());
}

template <enum shared_access kind> static void measure_rate(int warps, uint32_t step) {
    uint64_t *span = results(3);
    uint32_t round_step = 0;
    void *arguments[] = {&span, &step, &round_step};
    struct shape shape = {1, warps * WARP_LANES, 1, SHARED_BYTES};
    double cycles = measured_span((const void *)shared_rate_kernel<kind>, shape, arguments, span);
    double accesses = (double)warps * ROUNDS * ACCESSES;
    char parameters[128];
    snprintf(parameters, sizeof parameters, "\"access\": \"%s\", \"warps\": %d, \"lane_step_bytes\": %u",
             access_names[kind], warps, step);
    report("shared_bytes_a_cycle", parameters, accesses * WARP_LANES * access_bytes[kind] / cycles,
           "bytes a cycle");
}

template <enum shared_access kind> static void measure_widths(void) {
    for (int warps = 4; warps <= 16; warps *= 2) {
        measure_rate<kind>(warps, (uint32_t)access_bytes[kind]);
    }
}

void shared_memory(void) {
    uint64_t *span = results(3);
    void *arguments[] = {&span};
    struct shape one_warp = {1, WARP_LANES, 1, SHARED_BYTES};
    double brief = measured_span((const void *)chase_kernel<CHASE_SHORT>, one_warp, arguments, span);
    double more = measured_span((const void *)chase_kernel<CHASE_LONG>, one_warp, arguments, span);
    report("shared_load_latency_cycles", "", (more - brief) / (CHASE_LONG - CHASE_SHORT), "cycles");
    measure_widths<LOAD_4>();
    measure_widths<LOAD_8>();
    measure_widths<LOAD_16>();
    measure_widths<STORE_4>();
    measure_widths<STORE_16>();
    measure_widths<LDMATRIX_X4>();
    measure_widths<STMATRIX_X4>();
    for (uint32_t ways = 2; ways <= BANK_WORDS; ways *= 2) {
        measure_rate<LOAD_4>(8, 4 * ways);
        measure_rate<STORE_4>(8, 4 * ways);
    }
}
