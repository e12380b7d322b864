/* Tensor cores and tensor memory (TMEM) of sm_100a (PTX ISA 9.0, TensorCore 5th Generation Family
 * Instructions).  Like ptx.cuh: one function for each instruction, no policy.  `ctas`, 1 or 2, is the
 * instruction's .cta_group: a CTA or a pair. */
#ifndef GPU_TCGEN05_CUH
#define GPU_TCGEN05_CUH

#include "ptx.cuh"

/* An address in TMEM: lane << 16 | column. */
struct tmem_addr {
    uint32_t value;
};

PTX struct tmem_addr tmem_column(struct tmem_addr base, uint32_t columns) {
    return {base.value + columns};
}

/* ---- allocation: executed by a whole warp (in a pair, by one of each CTA) ---- */

/* Allocates `columns` columns, a power of two from 32 on, waiting until they are free, and writes their address
 * to shared memory. */
template <int ctas> PTX void tcgen05_alloc(uint32_t shared, uint32_t columns) {
    asm volatile("tcgen05.alloc.cta_group::%2.sync.aligned.shared::cta.b32 [%0], %1;" ::"r"(shared),
                 "r"(columns), "n"(ctas)
                 : "memory");
}

template <int ctas> PTX void tcgen05_relinquish_alloc_permit(void) {
    asm volatile("tcgen05.relinquish_alloc_permit.cta_group::%0.sync.aligned;" ::"n"(ctas) : "memory");
}

template <int ctas> PTX void tcgen05_dealloc(struct tmem_addr address, uint32_t columns) {
    asm volatile("tcgen05.dealloc.cta_group::%2.sync.aligned.b32 %0, %1;" ::"r"(address.value), "r"(columns),
                 "n"(ctas)
                 : "memory");
}

/* ---- order ---- */

/* Orders this thread's completed tcgen05 operations before the synchronization that follows. */
PTX void tcgen05_fence_before_thread_sync(void) {
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}

/* Orders the tcgen05 operations that follow after such a synchronization, in the other threads. */
PTX void tcgen05_fence_after_thread_sync(void) {
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

/* Makes one arrival on the barrier once all earlier mma and cp of this thread are complete; in a pair, on the
 * barrier at this place in each CTA of the mask. */
template <int ctas> PTX void tcgen05_commit(struct mbarrier barrier, uint16_t mask) {
    if constexpr (ctas == 1) {
        asm volatile(
            "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(barrier.address)
            : "memory");
    } else {
        asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster"
                     ".b64 [%0], %1;" ::"r"(barrier.address),
                     "h"(mask)
                     : "memory");
    }
}

/* ---- one thread issues, asynchronous, in order among themselves ---- */

/* 32 rows of 16 bytes -> 4 columns of each of the four quarters of lanes; in a pair, each CTA's rows to its own
 * TMEM. */
template <int ctas> PTX void tcgen05_cp_32x128b_warpx4(struct tmem_addr to, uint64_t descriptor) {
    asm volatile("tcgen05.cp.cta_group::%2.32x128b.warpx4 [%0], %1;" ::"r"(to.value), "l"(descriptor), "n"(ctas)
                 : "memory");
}

/* Uses of A in the tensor cores' buffer: drop it, keep it for the next mma, or read it from there for the last
 * time. */
enum collector { COLLECTOR_DISCARD, COLLECTOR_FILL, COLLECTOR_LASTUSE };

#define MMA_MXF4NVF4(collector)                                                                                \
    asm volatile("{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %6, 0;\n\t"                                             \
                 "tcgen05.mma.cta_group::%7.kind::mxf4nvf4.block_scale.scale_vec::4X" collector                \
                 " [%0], %1, %2, %3, [%4], [%5], p;\n\t}" ::"r"(d.value),                                      \
                 "l"(a), "l"(b), "r"(instruction), "r"(scale_a.value), "r"(scale_b.value), "r"(accumulate),    \
                 "n"(ctas)                                                                                     \
                 : "memory")

/* d = A * B^T, plus d where `accumulate`: K = 64, a scale factor for each 16 elements. */
template <int ctas, enum collector collector>
PTX void tcgen05_mma_mxf4nvf4(struct tmem_addr d, uint64_t a, uint64_t b, uint32_t instruction,
                              struct tmem_addr scale_a, struct tmem_addr scale_b, int accumulate) {
    if constexpr (collector == COLLECTOR_FILL) {
        MMA_MXF4NVF4(".collector::a::fill");
    } else if constexpr (collector == COLLECTOR_LASTUSE) {
        MMA_MXF4NVF4(".collector::a::lastuse");
    } else {
        MMA_MXF4NVF4("");
    }
}

/* ---- stores of 32 bytes (sm_100) ---- */

PTX void st_global_v8(void *to, const uint32_t *words) {
    asm volatile("st.global.v8.b32 [%0], {%1, %2, %3, %4, %5, %6, %7, %8};" ::"l"(to), "r"(words[0]),
                 "r"(words[1]), "r"(words[2]), "r"(words[3]), "r"(words[4]), "r"(words[5]), "r"(words[6]),
                 "r"(words[7])
                 : "memory");
}

/* ---- TMEM to registers: executed by a whole warp, which reaches the lanes of its quarter ---- */

/* Lane i gets 32 columns of lane i of the quarter; complete after tcgen05_wait_ld. */
PTX void tcgen05_ld_32x32b_x32(float (&d)[32], struct tmem_addr from) {
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x32.b32 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, [%32];"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]),
                   "=f"(d[7]), "=f"(d[8]), "=f"(d[9]), "=f"(d[10]), "=f"(d[11]), "=f"(d[12]), "=f"(d[13]),
                   "=f"(d[14]), "=f"(d[15]), "=f"(d[16]), "=f"(d[17]), "=f"(d[18]), "=f"(d[19]), "=f"(d[20]),
                   "=f"(d[21]), "=f"(d[22]), "=f"(d[23]), "=f"(d[24]), "=f"(d[25]), "=f"(d[26]), "=f"(d[27]),
                   "=f"(d[28]), "=f"(d[29]), "=f"(d[30]), "=f"(d[31])
                 : "r"(from.value)
                 : "memory");
}

/* The same for 16 columns. */
PTX void tcgen05_ld_32x32b_x16(float (&d)[16], struct tmem_addr from) {
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x16.b32 {"
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, [%16];"
                 : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]), "=f"(d[4]), "=f"(d[5]), "=f"(d[6]),
                   "=f"(d[7]), "=f"(d[8]), "=f"(d[9]), "=f"(d[10]), "=f"(d[11]), "=f"(d[12]), "=f"(d[13]),
                   "=f"(d[14]), "=f"(d[15])
                 : "r"(from.value)
                 : "memory");
}

PTX void tcgen05_wait_ld(void) {
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}

/* ---- registers to TMEM: the same ---- */

/* Lane i's eight words to eight columns of lane i of the quarter; complete after tcgen05_wait_st. */
PTX void tcgen05_st_32x32b_x8(struct tmem_addr to, const uint32_t *words) {
    asm volatile(
        "tcgen05.st.sync.aligned.32x32b.x8.b32 [%8], {%0, %1, %2, %3, %4, %5, %6, %7};" ::"r"(words[0]),
        "r"(words[1]), "r"(words[2]), "r"(words[3]), "r"(words[4]), "r"(words[5]), "r"(words[6]), "r"(words[7]),
        "r"(to.value)
        : "memory");
}

PTX void tcgen05_wait_st(void) {
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
}

#endif
