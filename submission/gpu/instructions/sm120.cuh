/* More instructions for sm_120a and its family: copies to a CTA's own shared memory, loads of fragments from
 * shared memory, and warp-level MMA of 4-bit elements with block scales.  One function for each; sections are
 * those of the PTX ISA 9.0. */
#ifndef GPU_SM120_CUH
#define GPU_SM120_CUH

#include "ptx.cuh"

/* ---- asynchronous copies, global to shared (cp.async.bulk) ----
 *
 * HW: for copies to .shared::cluster, as in ptx.cuh, ptxas adds function calls on these chips, for addresses of
 * other CTAs, and because of the calls it ignores setmaxnreg (ptxas 13.0, C7506).  So these copy to
 * .shared::cta. */

PTX void cp_async_bulk_cta(uint32_t to, const void *from, uint32_t bytes, struct mbarrier barrier) {
    asm volatile(
        "cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
        "l"(from), "r"(bytes), "r"(barrier.address)
        : "memory");
}

PTX void cp_async_bulk_tensor_3d_cta(uint32_t to, const void *tensor_map, int32_t x, int32_t y, int32_t z,
                                     struct mbarrier barrier) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cta.global.tile.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to),
                 "l"(tensor_map), "r"(x), "r"(y), "r"(z), "r"(barrier.address)
                 : "memory");
}

/* ---- warp-level MMA ---- */

/* Four 8 x 8 matrices of 16-bit elements: lane i gives the address of row i % 8 of matrix i / 8, 16 bytes;
 * register j of lane t gets bytes 4 (t % 4) to 4 (t % 4) + 3 of row t / 4 of matrix j. */
PTX void ldmatrix_x4(uint32_t (&fragment)[4], uint32_t row_address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
                 : "r"(row_address)
                 : "memory");
}

/* d += a * b for a warp's fragments, m16 n8 k64: e2m1 with a ue4m3 scale factor for every 16 of K, fp32 sums.
 *
 * Fragments of lane t (rows of A and columns of B have 32 bytes):
 *   a[0], a[1]  bytes 4 (t % 4) to 4 (t % 4) + 3 of rows t / 4 and t / 4 + 8 of A
 *   a[2], a[3]  16 bytes later in the same rows
 *   b0, b1      bytes 4 (t % 4) to 4 (t % 4) + 3 of column t / 4 of B, and 16 bytes later
 *   d[0], d[1]  row t / 4, columns 2 (t % 4) and 2 (t % 4) + 1 of D
 *   d[2], d[3]  the same columns of row t / 4 + 8
 *
 * A word of scale factors has the four of one row.  Lane 4 r + 2 a_thread + h supplies A's row r + 8 h, lane
 * 4 c + b_thread supplies B's column c (PTX ISA, Matrix Fragments for mma.m16n8k64; Block Scaling for
 * mma.sync). */
template <int a_thread, int b_thread>
PTX void mma_m16n8k64_mxf4nvf4(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1, uint32_t sfa,
                               uint32_t sfb) {
    asm("mma.sync.aligned.m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3}, {%10}, {%11, %12}, {%13}, {%11, %14};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1), "r"(sfa), "n"(0), "n"(a_thread),
          "r"(sfb), "n"(b_thread));
}

#endif
