/* The parameters of a chip's clock, one file for each chip (chips/NAME.json). */
#ifndef SIM_CLOCK_CHIP_H
#define SIM_CLOCK_CHIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Time inside the clock: integers, so that every host computes the same. */
typedef uint64_t ticks;
#define TICKS 64u /* in a cycle */
#define NEVER UINT64_MAX

/* How a parameter is stored.  The file states its unit, which is checked. */
enum parameter_kind {
    COUNT,    /* "count", "bytes": unchanged */
    CYCLES,   /* "cycles": ticks */
    RATE,     /* "bytes/cycle": ticks for a byte, times RATE_ONE */
    MEGAHERTZ /* "GHz": thousandths */
};
#define RATE_ONE 65536u

#define LINE_BYTES 128 /* a line of L1 or L2 */
#define L2_WAYS    16  /* lines of a set of L2 */

#define CHIP_PARAMETERS(X)                                                                                     \
    X(sms, COUNT)                                                                                              \
    X(sm_clock, MEGAHERTZ)                                                                                     \
    X(sm_clock_tensor, MEGAHERTZ)                                                                              \
    X(processing_cluster_sms, COUNT)                                                                           \
    X(processing_clusters_whole, COUNT)                                                                        \
    X(processing_cluster_short_sms, COUNT)                                                                     \
    X(sm_shared_bytes, COUNT)                                                                                  \
    X(sm_threads, COUNT)                                                                                       \
    X(sm_ctas, COUNT)                                                                                          \
    X(sm_split_fixed, COUNT)                                                                                   \
    X(l1_bytes, COUNT)                                                                                         \
    X(l2_bytes, COUNT)                                                                                         \
    /* a warp instruction */                                                                                   \
    X(issue_interval, CYCLES)                                                                                  \
    X(assembled_ahead, CYCLES)                                                                                 \
    X(cross_pipe_latency, CYCLES)                                                                              \
    X(alu_latency, CYCLES)                                                                                     \
    X(alu_interval, CYCLES)                                                                                    \
    X(fma_latency, CYCLES)                                                                                     \
    X(fma_interval, CYCLES)                                                                                    \
    X(imad_latency, CYCLES)                                                                                    \
    X(imad_interval, CYCLES)                                                                                   \
    X(imad_wide_latency, CYCLES)                                                                               \
    X(imad_wide_interval, CYCLES)                                                                              \
    X(half_latency, CYCLES)                                                                                    \
    X(half_interval, CYCLES)                                                                                   \
    X(special_latency, CYCLES)                                                                                 \
    X(special_interval, CYCLES)                                                                                \
    X(shuffle_latency, CYCLES)                                                                                 \
    X(shuffle_interval, CYCLES)                                                                                \
    X(vote_latency, CYCLES)                                                                                    \
    X(vote_interval, CYCLES)                                                                                   \
    X(redux_latency, CYCLES)                                                                                   \
    X(redux_interval, CYCLES)                                                                                  \
    X(branch_interval, CYCLES)                                                                                 \
    X(clock_read_latency, CYCLES)                                                                              \
    X(clock_read_interval, CYCLES)                                                                             \
    X(warp_mma_latency, CYCLES)                                                                                \
    X(warp_mma_interval, CYCLES)                                                                               \
    /* memory */                                                                                               \
    X(shared_latency, CYCLES)                                                                                  \
    X(shared_interval, CYCLES)                                                                                 \
    X(l1_latency, CYCLES)                                                                                      \
    X(l2_latency, CYCLES)                                                                                      \
    X(hbm_latency, CYCLES)                                                                                     \
    X(hbm_loaded, CYCLES)                                                                                      \
    X(hbm_loaded_power, COUNT)                                                                                 \
    X(sm_load_rate, RATE)                                                                                      \
    X(sm_store_rate, RATE)                                                                                     \
    X(l2_load_rate, RATE)                                                                                      \
    X(l2_box_rate, RATE)                                                                                       \
    X(l2_warp_rate, RATE)                                                                                      \
    X(l2_store_rate, RATE)                                                                                     \
    X(hbm_rate, RATE)                                                                                          \
    X(hbm_box_rate, RATE)                                                                                      \
    X(hbm_warp_rate, RATE)                                                                                     \
    X(memory_queue, CYCLES)                                                                                    \
    X(store_queue, CYCLES)                                                                                     \
    X(remote_latency, CYCLES)                                                                                  \
    X(remote_signal, CYCLES)                                                                                   \
    X(remote_rate, RATE)                                                                                       \
    /* bulk and tensor copies */                                                                               \
    X(copy_issue_interval, CYCLES)                                                                             \
    X(copy_barrier_hold, CYCLES)                                                                               \
    X(tensor_copy_barrier_hold, CYCLES)                                                                        \
    X(copy_engine_interval, CYCLES)                                                                            \
    X(copy_row_interval, CYCLES)                                                                               \
    X(copy_store_latency, CYCLES)                                                                              \
    X(copy_read_latency, CYCLES)                                                                               \
    /* barriers and fences */                                                                                  \
    X(mbarrier_arrive_interval, CYCLES)                                                                        \
    X(mbarrier_test_latency, CYCLES)                                                                           \
    X(mbarrier_wake, CYCLES)                                                                                   \
    X(barrier_arrive_interval, CYCLES)                                                                         \
    X(barrier_wake, CYCLES)                                                                                    \
    X(warp_sync_latency, CYCLES)                                                                               \
    X(set_registers_latency, CYCLES)                                                                           \
    X(cluster_barrier_wake, CYCLES)                                                                            \
    X(cluster_barrier_alone, CYCLES)                                                                           \
    X(cluster_arrive_interval, CYCLES)                                                                         \
    X(release_behind_copies, COUNT)                                                                            \
    X(cluster_arrive_fences, COUNT)                                                                            \
    X(fence_cta, CYCLES)                                                                                       \
    X(fence_gpu, CYCLES)                                                                                       \
    X(fence_gpu_copies, CYCLES)                                                                                \
    X(fence_gpu_completed, CYCLES)                                                                             \
    X(fence_async, CYCLES)                                                                                     \
    X(fence_async_shared, CYCLES)                                                                              \
    /* wgmma; tcgen05.mma of one CTA and of a pair */                                                          \
    X(wgmma_latency_shared, CYCLES)                                                                            \
    X(wgmma_latency_registers, CYCLES)                                                                         \
    X(wgmma_wait_latency, CYCLES)                                                                              \
    X(wgmma_column, CYCLES)                                                                                    \
    X(wgmma_read_a, CYCLES)                                                                                    \
    X(wgmma_read_column, CYCLES)                                                                               \
    X(wgmma_least_registers, CYCLES)                                                                           \
    X(wgmma_switch_column_shared, CYCLES)                                                                      \
    X(wgmma_switch_most_shared, CYCLES)                                                                        \
    X(tcgen05_latency, CYCLES)                                                                                 \
    X(tcgen05_latency_half, CYCLES)                                                                            \
    X(tcgen05_latency_tmem, CYCLES)                                                                            \
    X(tcgen05_scale_latency, CYCLES)                                                                           \
    X(tcgen05_pair_latency, CYCLES)                                                                            \
    X(tcgen05_pair_latency_half, CYCLES)                                                                       \
    X(tcgen05_pair_latency_narrow, CYCLES)                                                                     \
    X(tcgen05_pair_latency_tmem, CYCLES)                                                                       \
    X(tcgen05_pair_latency_tmem_half, CYCLES)                                                                  \
    X(tcgen05_pair_scale_latency, CYCLES)                                                                      \
    X(tcgen05_column, CYCLES)                                                                                  \
    X(tcgen05_read_a, CYCLES)                                                                                  \
    X(tcgen05_read_column, CYCLES)                                                                             \
    X(tcgen05_pair_read_a, CYCLES)                                                                             \
    X(tcgen05_copy_interval, CYCLES)                                                                           \
    X(tcgen05_copy_latency, CYCLES)                                                                            \
    X(tcgen05_commit_latency, CYCLES)                                                                          \
    X(tcgen05_load_latency, CYCLES)                                                                            \
    X(tcgen05_load_rate, RATE)                                                                                 \
    /* launches */                                                                                             \
    X(host_launch, CYCLES)                                                                                     \
    X(launch_gap, CYCLES)                                                                                      \
    X(dependent_gap, CYCLES)                                                                                   \
    X(dependent_release, CYCLES)                                                                               \
    X(cta_start, CYCLES)                                                                                       \
    X(cta_start_interval, CYCLES)                                                                              \
    X(sm_start_interval, CYCLES)                                                                               \
    X(cluster_start_interval, CYCLES)                                                                          \
    X(sm_end_interval, CYCLES)                                                                                 \
    X(cta_end_interval, CYCLES)                                                                                \
    X(cta_end, CYCLES)                                                                                         \
    X(launch_drain, CYCLES)

/* Parameters of mechanisms that a chip's file may leave out; 0 turns the mechanism off. */
#define CHIP_MECHANISMS(X)                                                                                     \
    X(hbm_loaded_shared, COUNT)                                                                                \
    X(l2_behind_own, CYCLES)                                                                                   \
    X(l2_behind_misses, CYCLES)                                                                                \
    X(l2_store_beside, CYCLES)                                                                                 \
    X(l2_store_behind, CYCLES)                                                                                 \
    X(l2_store_behind_misses, CYCLES)                                                                          \
    X(shared_store_interval, CYCLES)                                                                           \
    X(l2_shared_for, CYCLES)                                                                                   \
    X(l2_shared_rate, RATE)                                                                                    \
    X(l2_prefetched, CYCLES)                                                                                   \
    X(l2_prefetched_rows, CYCLES)                                                                              \
    X(remote_release, CYCLES)                                                                                  \
    X(remote_arrival, CYCLES)                                                                                  \
    X(window_arrival, CYCLES)                                                                                  \
    X(remote_arrival_interval, CYCLES)                                                                         \
    X(l2_store_line_bytes, COUNT)                                                                              \
    X(store_line_bytes, COUNT)                                                                                 \
    X(store_part_bytes, COUNT)                                                                                 \
    X(warp_mma_hold, CYCLES)                                                                                   \
    /* multiply-adds a cycle and SM of mma.sync and wmma, by operands and sums (tensor/warp_mma_time.c) */     \
    X(mma_f16_sums_f16, COUNT)                                                                                 \
    X(mma_f16_sums_f32, COUNT)                                                                                 \
    X(mma_tf32, COUNT)                                                                                         \
    X(mma_f8_sums_f16, COUNT)                                                                                  \
    X(mma_f8_sums_f32, COUNT)                                                                                  \
    X(mma_mxf8, COUNT)                                                                                         \
    X(mma_mxf4, COUNT)                                                                                         \
    X(mma_int8, COUNT)                                                                                         \
    X(mma_f64, COUNT)                                                                                          \
    X(async_copy_line, CYCLES)                                                                                 \
    X(async_copy_cached, CYCLES)                                                                               \
    X(load_line, CYCLES)                                                                                       \
    X(store_answered, CYCLES)                                                                                  \
    X(dependent_gap_alone, CYCLES)                                                                             \
    X(cta_count_interval, CYCLES)                                                                              \
    X(trigger_ahead, CYCLES)                                                                                   \
    X(launch_flush, CYCLES)                                                                                    \
    X(launch_flush_alone, CYCLES)                                                                              \
    X(sm_flush_interval, CYCLES)                                                                               \
    X(store_part_seen, CYCLES)                                                                                 \
    X(cluster_start, CYCLES)                                                                                   \
    X(warp_start_interval, CYCLES)                                                                             \
    X(fence_mbarrier_init, CYCLES)                                                                             \
    X(fence_gpu_touched, CYCLES)                                                                               \
    X(fence_joins, CYCLES)                                                                                     \
    X(fence_follows, CYCLES)                                                                                   \
    X(fence_shared_stored, CYCLES)                                                                             \
    X(fence_shared_interval, CYCLES)                                                                           \
    /* only used with machine code */                                                                          \
    X(special_register_latency, CYCLES)                                                                        \
    X(uniform_special_register_latency, CYCLES)                                                                \
    X(constant_latency, CYCLES)                                                                                \
    X(operand_read, CYCLES)                                                                                    \
    X(operand_read_more, CYCLES)                                                                               \
    X(cluster_arrive_alone, CYCLES)                                                                            \
    X(copy_latency_less, CYCLES)                                                                               \
    X(fence_gpu_asks, CYCLES)                                                                                  \
    X(sm_registers, COUNT)                                                                                     \
    X(wgmma_start, CYCLES)                                                                                     \
    X(wgmma_dispatch, CYCLES)                                                                                  \
    X(wgmma_reads_ahead, CYCLES)                                                                               \
    X(parameter_line, CYCLES)                                                                                  \
    X(parameters_l2, CYCLES)                                                                                   \
    X(parameters_hbm, CYCLES)                                                                                  \
    X(parameters_late, CYCLES)

/* Cycles of a copy on an idle chip by its bytes, from L2 and from HBM: points of a piecewise linear curve. */
#define CHIP_CURVES(X)                                                                                         \
    X(copy_latency_l2)                                                                                         \
    X(copy_latency_hbm)
/* Extra cycles of a warp's load by the number of its lines that are not adjacent, from L2 and from HBM. */
#define CHIP_MECHANISM_CURVES(X)                                                                               \
    X(rows_latency_l2)                                                                                         \
    X(rows_latency_hbm)
#define CURVE_POINTS 12

struct curve {
    uint32_t count;
    uint64_t x[CURVE_POINTS];
    ticks y[CURVE_POINTS];
};

struct chip {
    char name[32];
    char error[256]; /* how far off the model is: a line from simulator/calibration */
#define X(name, kind) uint64_t name;
    CHIP_PARAMETERS(X)
    CHIP_MECHANISMS(X)
#undef X
#define X(name) struct curve name;
    CHIP_CURVES(X)
    CHIP_MECHANISM_CURVES(X)
#undef X
};

/* Reads a chip by name, or from a file if `name` has a slash or ends in .json.  machine: take the "machine"
 * values, which some parameters have for a clock that goes by machine code.  False: `message` names the key and
 * its fault. */
bool chip_load(struct chip *chip, const char *name, bool machine, char *message, size_t room);
/* Returns how long `bytes` take at a rate. */
static inline ticks rate_ticks(uint64_t rate, uint64_t bytes) {
    return bytes * rate / RATE_ONE;
}
ticks curve_at(const struct curve *curve, uint64_t x);

#endif
