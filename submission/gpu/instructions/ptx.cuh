/* One function for each PTX instruction, named after it.  No policy here.
 * Sections are those of the PTX ISA 9.0.  Shared addresses are 32-bit, as cvta gives them. */
#ifndef GPU_PTX_CUH
#define GPU_PTX_CUH

#include <stdint.h>

#define PTX static __device__ __forceinline__

/* An mbarrier object's shared address. */
struct mbarrier {
    uint32_t address;
};

PTX uint32_t cvta_to_shared(const void *pointer) {
    return (uint32_t)__cvta_generic_to_shared(pointer);
}

/* ---- mbarrier (Parallel Synchronization: mbarrier) ---- */

PTX void mbarrier_init(struct mbarrier barrier, uint32_t arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier.address), "r"(arrivals) : "memory");
}

/* Makes initialised barriers visible to the async proxy and to the cluster. */
PTX void fence_mbarrier_init(void) {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

PTX void mbarrier_arrive_expect_tx(struct mbarrier barrier, uint32_t bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier.address), "r"(bytes)
                 : "memory");
}

PTX void mbarrier_arrive(struct mbarrier barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier.address) : "memory");
}

/* Arrives on a barrier of any CTA of the cluster, by its address in the cluster's window. */
PTX void mbarrier_arrive_cluster(uint32_t barrier) {
    asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* The same without making earlier accesses of this thread visible. */
PTX void mbarrier_arrive_cluster_relaxed(uint32_t barrier) {
    asm volatile("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/* A trap in place of a result that nobody uses: reads a kernel's parameter now.  The first read of a line of
 * parameters waits for memory, and later ones of the SM do not. */
PTX void trap_if_negative(int32_t parameter) {
    asm volatile("{\n\t.reg .pred p;\n\tsetp.lt.s32 p, %0, 0;\n\t@p trap;\n\t}" ::"r"(parameter));
}

/* Makes this thread's stores to shared memory visible to the async proxy, as which tcgen05.cp reads.
 */
PTX void fence_proxy_async_shared(void) {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

/* Between ordinary stores to global memory, this thread's or others', and copies of that memory through the
 * async proxy. */
PTX void fence_proxy_async_global(void) {
    asm volatile("fence.proxy.async.global;" ::: "memory");
}

/* True if the phase of this parity is complete; may suspend the thread for a while first. */
PTX bool mbarrier_try_wait_parity(struct mbarrier barrier, uint32_t parity) {
    uint32_t done;
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n\t"
                 "selp.u32 %0, 1, 0, p;\n\t}"
                 : "=r"(done)
                 : "r"(barrier.address), "r"(parity)
                 : "memory");
    return done != 0;
}

/* The same, acquiring what other CTAs of the cluster release by their arrivals. */
PTX bool mbarrier_try_wait_parity_cluster(struct mbarrier barrier, uint32_t parity) {
    uint32_t done;
    asm volatile("{\n\t.reg .pred p;\n\t"
                 "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n\t"
                 "selp.u32 %0, 1, 0, p;\n\t}"
                 : "=r"(done)
                 : "r"(barrier.address), "r"(parity)
                 : "memory");
    return done != 0;
}

/* ---- asynchronous copies of a thread, global to shared (cp.async) ---- */

/* 16 bytes, not kept in L1; L2 may read the 256 bytes around them. */
PTX void cp_async_cg_16(uint32_t to, const void *from) {
    asm volatile("cp.async.cg.shared.global.L2::256B [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

PTX void cp_async_ca_4(uint32_t to, const void *from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}

PTX void cp_async_ca_8(uint32_t to, const void *from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from) : "memory");
}

PTX void cp_async_commit_group(void) {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits until at most `pending` of this thread's groups are incomplete; only this thread may then read the
 * others' bytes. */
template <int pending> PTX void cp_async_wait_group(void) {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

/* Each thread: arrives on the barrier once its earlier cp.async are complete; the barrier counts this thread
 * among its arrivals (PTX ISA, cp.async.mbarrier.arrive). */
PTX void cp_async_mbarrier_arrive_noinc(struct mbarrier barrier) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier.address) : "memory");
}

/* ---- asynchronous copies, global to shared, completing on an mbarrier (cp.async.bulk) ---- */

PTX void cp_async_bulk(uint32_t to, const void *from, uint32_t bytes, struct mbarrier barrier) {
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
        "l"(from), "r"(bytes), "r"(barrier.address)
        : "memory");
}

PTX void cp_async_bulk_tensor_3d(uint32_t to, const void *tensor_map, int32_t x, int32_t y, int32_t z,
                                 struct mbarrier barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
                 "l"(tensor_map), "r"(x), "r"(y), "r"(z), "r"(barrier.address)
                 : "memory");
}

/* The same to the same place of each CTA in the mask, signalling each one's barrier at the same place. */
PTX void cp_async_bulk_tensor_3d_multicast(uint32_t to, const void *tensor_map, int32_t x, int32_t y, int32_t z,
                                           struct mbarrier barrier, uint16_t ctas) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
                 "l"(tensor_map), "r"(x), "r"(y), "r"(z), "r"(barrier.address), "h"(ctas)
                 : "memory");
}

/* A copy by a CTA of a pair, whose barrier may be the other CTA's (sm_100a). */
PTX void cp_async_bulk_tensor_3d_pair(uint32_t to, const void *tensor_map, int32_t x, int32_t y, int32_t z,
                                      struct mbarrier barrier) {
    asm volatile(
        "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.cta_group::2 "
        "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
        "l"(tensor_map), "r"(x), "r"(y), "r"(z), "r"(barrier.address)
        : "memory");
}

/* The same to the same place of each CTA in the mask; in a pair all of them signal one CTA's barrier. */
PTX void cp_async_bulk_tensor_3d_pair_multicast(uint32_t to, const void *tensor_map, int32_t x, int32_t y,
                                                int32_t z, struct mbarrier barrier, uint16_t ctas) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 ".multicast::cluster.cta_group::2 [%0], [%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
                 "l"(tensor_map), "r"(x), "r"(y), "r"(z), "r"(barrier.address), "h"(ctas)
                 : "memory");
}

/* Prefetches a box to L2, which the whole device shares, so that the data cannot become stale. */
PTX void cp_async_bulk_prefetch_tensor_3d_l2(const void *tensor_map, int32_t x, int32_t y, int32_t z) {
    asm volatile("cp.async.bulk.prefetch.tensor.3d.L2.global.tile [%0, {%1, %2, %3}];" ::"l"(tensor_map),
                 "r"(x), "r"(y), "r"(z)
                 : "memory");
}

/* Prefetches a line to L2, which the whole device shares, so that the data cannot become stale.  HW: each
 * lane's prefetch takes a cycle of its own. */
PTX void prefetch_global_l2(const void *address) {
    asm volatile("prefetch.global.L2 [%0];" ::"l"(address) : "memory");
}

/* One thread.  Brings the line of a global address to L1; reads nothing (PTX ISA, prefetch). */
PTX void prefetch_global_l1(const void *address) {
    asm volatile("prefetch.global.L1 [%0];" ::"l"(address));
}

PTX void prefetch_tensormap(const void *tensor_map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(tensor_map) : "memory");
}

/* ---- words that CTAs of a grid share ---- */

PTX uint32_t atom_add_relaxed_gpu(uint32_t *word, uint32_t value) {
    uint32_t before;
    asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;"
                 : "=r"(before)
                 : "l"(word), "r"(value)
                 : "memory");
    return before;
}

PTX void red_add_release_gpu(uint32_t *word, uint32_t value) {
    asm volatile("red.release.gpu.global.add.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}

PTX uint32_t ld_acquire_gpu(const uint32_t *word) {
    uint32_t value;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}

/* ---- words that a CTA's threads share without a barrier ---- */

PTX void red_add_relaxed_cta_shared(uint32_t address, uint32_t value) {
    asm volatile("red.relaxed.cta.shared.add.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

PTX uint32_t ld_relaxed_cta_shared(uint32_t address) {
    uint32_t word;
    asm volatile("ld.relaxed.cta.shared.u32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
    return word;
}

/* Suspends the thread for at most twice that time. */
PTX void nanosleep(uint32_t nanoseconds) {
    asm volatile("nanosleep.u32 %0;" ::"r"(nanoseconds));
}

/* ---- programmatic dependent launch, PDL (griddepcontrol) ---- */

/* Returns when the grids that this one depends on (the previous kernel) are complete and their writes visible.
 */
PTX void griddepcontrol_wait(void) {
    asm volatile("griddepcontrol.wait;" ::: "memory");
}

/* Lets the grids that depend on this one start. */
PTX void griddepcontrol_launch_dependents(void) {
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
}

/* ---- clusters (barrier.cluster, mapa, distributed shared memory) ---- */

PTX void barrier_cluster_arrive_release(void) {
    asm volatile("barrier.cluster.arrive.release;" ::: "memory");
}

/* Orders no memory accesses: serves to wait until the cluster's other CTAs run. */
PTX void barrier_cluster_arrive_relaxed(void) {
    asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}

PTX void barrier_cluster_wait_acquire(void) {
    asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
}

/* The address in the cluster's window of CTA `rank`'s shared memory at `address`. */
PTX uint32_t mapa_shared_cluster(uint32_t address, uint32_t rank) {
    uint32_t mapped;
    asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(mapped) : "r"(address), "r"(rank));
    return mapped;
}

PTX uint32_t ld_shared_cluster_u32(uint32_t address) {
    uint32_t word;
    asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
    return word;
}

PTX void st_shared_cluster_v4(uint32_t address, const float *four) {
    asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(four[0]), "f"(four[1]),
                 "f"(four[2]), "f"(four[3])
                 : "memory");
}

/* Stores asynchronously and completes 16 bytes of the phase of an mbarrier of the same CTA; both addresses are
 * in the cluster's window. */
PTX void st_async_v4(uint32_t address, const float *four, uint32_t barrier) {
    asm volatile(
        "st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
            address),
        "f"(four[0]), "f"(four[1]), "f"(four[2]), "f"(four[3]), "r"(barrier)
        : "memory");
}

/* ---- registers, barriers, shared memory ---- */

template <uint32_t registers> PTX void setmaxnreg_inc(void) {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

template <uint32_t registers> PTX void setmaxnreg_dec(void) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

/* True for one lane of the warp, the same each time; the whole warp executes this. */
PTX bool elect_sync(void) {
    uint32_t elected;
    asm volatile("{\n\t.reg .pred p;\n\telect.sync _|p, 0xffffffff;\n\tselp.u32 %0, 1, 0, p;\n\t}"
                 : "=r"(elected));
    return elected != 0;
}

/* Named barrier among `threads` threads of the CTA; 0 is __syncthreads. */
PTX void bar_sync(uint32_t barrier, uint32_t threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/* Counts for bar_sync and does not wait. */
PTX void bar_arrive(uint32_t barrier, uint32_t threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

/* For data that is read once: it takes no place in L1.  Volatile, so that it stays behind a wait.  PTX ISA, ld.
 */
PTX uint4 ld_global_once_v4(const void *address) {
    uint4 words;
    asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "l"(address));
    return words;
}

PTX uint4 ld_shared_v4(uint32_t address) {
    uint4 value;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                 : "r"(address)
                 : "memory");
    return value;
}

PTX void st_shared_f32(uint32_t address, float value) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}

/* Stores floats as floats: if they were read as words, the compiler would keep them as words, and copy them. */
PTX void st_shared_v4_f32(uint32_t address, const float *four) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(four[0]), "f"(four[1]),
                 "f"(four[2]), "f"(four[3])
                 : "memory");
}

PTX void st_shared_u32(uint32_t address, uint32_t word) {
    asm volatile("st.shared.b32 [%0], %1;" ::"r"(address), "r"(word) : "memory");
}

PTX void st_shared_v4(uint32_t address, const uint32_t (&words)[4]) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words[0]), "r"(words[1]),
                 "r"(words[2]), "r"(words[3])
                 : "memory");
}

PTX uint32_t ld_shared_u32(uint32_t address) {
    uint32_t value;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
    return value;
}

PTX uint16_t ld_shared_u16(uint32_t address) {
    uint16_t value;
    asm volatile("ld.shared.u16 %0, [%1];" : "=h"(value) : "r"(address) : "memory");
    return value;
}

/* Four 8 x 8 matrices of 16-bit elements; lane i names row i % 8 of matrix i / 8. */
PTX void stmatrix_x4(uint32_t row_address, const uint32_t fragment[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row_address),
                 "r"(fragment[0]), "r"(fragment[1]), "r"(fragment[2]), "r"(fragment[3])
                 : "memory");
}

/* The same, transposed on the way. */
PTX void stmatrix_x4_trans(uint32_t row_address, const uint32_t fragment[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(row_address),
                 "r"(fragment[0]), "r"(fragment[1]), "r"(fragment[2]), "r"(fragment[3])
                 : "memory");
}

/* No instruction: keeps the compiler from moving reads of a value that an asynchronous instruction writes
 * before the wait that precedes this. */
PTX void keep_after_wait(float &value) {
    asm volatile("" : "+f"(value)::"memory");
}

/* ---- arithmetic ---- */

/* The word of the lane whose number differs from this one's in the bits of `mask`. */
PTX uint32_t shfl_sync_bfly(uint32_t word, int mask) {
    return __shfl_xor_sync(~0u, word, mask);
}

/* Bytes of {x, y} (x: 0-3, y: 4-7) picked by the selector's nibbles, lowest first. */
PTX uint32_t prmt(uint32_t x, uint32_t y, uint32_t selector) {
    return __byte_perm(x, y, selector);
}

/* The same, but a nibble whose highest bit is set picks the sign of its byte, eight times.  PTX ISA, prmt. */
PTX uint32_t prmt_or_sign(uint32_t x, uint32_t y, uint32_t selector) {
    uint32_t bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(x), "r"(y), "r"(selector));
    return bytes;
}

/* Eight e2m1 codes to pairs of halves, exactly.  HW: sm_100a, sm_120a and their families.  PTX ISA, cvt. */
PTX void cvt_f16x2_e2m1x2(uint32_t word, uint32_t *halves) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
    asm("{.reg .b8 byte0, byte1, byte2, byte3;\n\tmov.b32 {byte0, byte1, byte2, byte3}, %4;\n\t"
        "cvt.rn.f16x2.e2m1x2 %0, byte0;\n\tcvt.rn.f16x2.e2m1x2 %1, byte1;\n\t"
        "cvt.rn.f16x2.e2m1x2 %2, byte2;\n\tcvt.rn.f16x2.e2m1x2 %3, byte3;}"
        : "=r"(halves[0]), "=r"(halves[1]), "=r"(halves[2]), "=r"(halves[3])
        : "r"(word));
#endif
}

PTX uint32_t fma_f16x2(uint32_t x, uint32_t y, uint32_t z) {
    uint32_t sum;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(x), "r"(y), "r"(z));
    return sum;
}

/* sum plus the products of four signed bytes. */
PTX int32_t dp4a(uint32_t x, uint32_t y, int32_t sum) {
    return __dp4a((int32_t)x, (int32_t)y, sum);
}

/* Bits of `chosen` for ones in the mask, else of `other`, in one instruction, which ptxas does not find by
 * itself. */
PTX uint32_t select_bits(uint32_t mask, uint32_t chosen, uint32_t other) {
    uint32_t bits;
    asm("lop3.b32 %0, %1, %2, %3, 0xca;" : "=r"(bits) : "r"(mask), "r"(chosen), "r"(other));
    return bits;
}

/* Two e4m3 values to two halves, exactly; NaN stays NaN. */
PTX uint32_t cvt_rn_f16x2_e4m3x2(uint16_t pair) {
    uint32_t halves;
    asm("cvt.rn.f16x2.e4m3x2 %0, %1;" : "=r"(halves) : "h"(pair));
    return halves;
}

/* Exact. */
PTX float cvt_f32_f16(uint16_t half) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}

/* `low` goes to the lower half; rounds to nearest even, overflow to infinity. */
PTX uint32_t cvt_rn_f16x2_f32(float low, float high) {
    uint32_t halves;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(high), "f"(low));
    return halves;
}

PTX uint32_t cvt_rn_bf16x2_f32(float low, float high) {
    uint32_t pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

/* `low` goes to the lower byte; rounds to nearest even, to at most 448; NaN stays NaN. */
PTX uint16_t cvt_rn_satfinite_e4m3x2_f32(float low, float high) {
    uint16_t pair;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(pair) : "f"(high), "f"(low));
    return pair;
}

/* NaN if either is. */
PTX float max_nan_f32(float x, float y) {
    float larger;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(larger) : "f"(x), "f"(y));
    return larger;
}

/* NaN if either is. */
PTX float min_nan_f32(float x, float y) {
    float smaller;
    asm("min.NaN.f32 %0, %1, %2;" : "=f"(smaller) : "f"(x), "f"(y));
    return smaller;
}

/* The low half in both halves.  No instruction: ptxas lets the product read that half. */
PTX uint32_t twice_low(uint32_t halves) {
    uint32_t both;
    asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; mov.b32 %0, {low, low};}" : "=r"(both) : "r"(halves));
    return both;
}

/* The same with the high half. */
PTX uint32_t twice_high(uint32_t halves) {
    uint32_t both;
    asm("{.reg .b16 low, high; mov.b32 {low, high}, %1; mov.b32 %0, {high, high};}" : "=r"(both) : "r"(halves));
    return both;
}

/* Subnormals are kept: without .ftz. */
PTX uint32_t mul_f16x2(uint32_t x, uint32_t y) {
    uint32_t product;
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(product) : "r"(x), "r"(y));
    return product;
}

/* Subnormals are kept. */
PTX uint32_t mul_bf16x2(uint32_t x, uint32_t y) {
    uint32_t product;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(product) : "r"(x), "r"(y));
    return product;
}

/* Subnormals are kept. */
PTX uint32_t add_f16x2(uint32_t x, uint32_t y) {
    uint32_t sum;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(x), "r"(y));
    return sum;
}

/* Subnormals are kept. */
PTX uint32_t add_bf16x2(uint32_t x, uint32_t y) {
    uint32_t sum;
    asm("add.rn.bf16x2 %0, %1, %2;" : "=r"(sum) : "r"(x), "r"(y));
    return sum;
}

/* d += a * b for a warp's fragments, m16 n8 k16, fp16 operands, fp32 accumulators (PTX ISA, mma.sync). */
PTX void mma_m16n8k16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/* The same with bf16 operands. */
PTX void mma_m16n8k16_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

PTX float ex2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

PTX float rcp_approx(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

#endif
