/* The grouped GEMM for sm_120a and sm_121a, c_i = a_i b_i^T: the dual GEMM's kernel with another list of tiles
 * and another epilogue.
 *
 * Read geforce_dual_gemm.cuh first.  The first and the second half of a tile's rows of the group's only B take
 * the places of B1 and B2, so that copies, products and barriers are the same code; acc_gate and acc_up hold
 * the two halves of a tile's columns.  Both halves have their scale factors in one scale tile, which is copied
 * once.  The host sorts the tiles of all groups into one list, the longest first, and CTAs take them in turn.
 * Everything about a group is in the kernel's parameters. */
#ifndef GEFORCE_GROUPED_GEMM_CUH
#define GEFORCE_GROUPED_GEMM_CUH

#include "../geforce_dual_gemm.cuh"

namespace geforce {

template <int tile_m, int tile_n, int stages, int warps_m, int warps_n>
struct grouped_tile : tile<tile_m, tile_n, stages, warps_m, warps_n> {
    static constexpr int products = 1, columns = 2 * tile_n, second_column = tile_n, sfb_copies = 1;
    static_assert(SCALE_TILE_ROWS % columns == 0, "a tile's rows of B are in one scale tile");
    static_assert(tile_n % SCALE_ENTRIES == 0, "a row's and its counterpart's words lie equally far apart");
};

/* MMA warp: both accumulators hold columns of one product, the second half after the first. */
struct grouped_epilogue {
    template <class T, class G>
    static __device__ __forceinline__ void run(const float (&first_half)[T::m_blocks][T::n_blocks][4],
                                               const float (&second_half)[T::m_blocks][T::n_blocks][4],
                                               const struct tile_coord &coord, const G &p) {
        store_columns<T>(coord, coord.n, p, [&](int m, int n, int first) {
            return cvt_rn_f16x2_f32(first_half[m][n][first], first_half[m][n][first + 1]);
        });
        store_columns<T>(coord, coord.n + T::second_column, p, [&](int m, int n, int first) {
            return cvt_rn_f16x2_f32(second_half[m][n][first], second_half[m][n][first + 1]);
        });
    }
};

template <class T, class P>
static __global__ void __launch_bounds__(T::threads, 1) grouped_gemm_kernel(const __grid_constant__ P p) {
    run_tiles<T, grouped_epilogue>(p);
}

} // namespace geforce

#endif
