/* Microbenchmarks of one GPU: small kernels, each of which measures one parameter of the chip.
 *
 * The same program runs on a card and on the simulator. It prints a JSON object a line:
 *   {"name": "wgmma_cycles", "parameters": {"n": 64, ...}, "value": 32.0, "unit": "cycles"}
 * A value is the median over launches of one process. Cycles are those of the SM's clock64. */
#ifndef MICRO_CUH
#define MICRO_CUH

#include <cuda.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../submission/gpu/instructions/ptx.cuh"

#define WARP_LANES       32
#define WARPGROUP_LANES  128
#define MAX_CTA_SHARED   232448 /* HW: 227 KB a CTA on compute capability 9.0 (CUDA programming guide) */
#define SWIZZLE_ROW      128    /* HW: the widest swizzle row (CUDA driver API, tensor maps) */
#define SWIZZLE_ATOM     1024 /* HW: alignment of a 128-byte swizzle atom (PTX ISA, shared-memory descriptor) */
#define LAUNCHES         9    /* a median of so many */
#define WARM_UP_LAUNCHES 2

/* ---- what the device tells of time ---- */

static __device__ __forceinline__ uint64_t clock64_now(void) {
    uint64_t now;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
    return now;
}

static __device__ __forceinline__ uint64_t globaltimer_now(void) {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    return now;
}

static __device__ __forceinline__ void wait_parity(struct mbarrier barrier, uint32_t parity) {
    while (!mbarrier_try_wait_parity(barrier, parity)) {
    }
}

/* First and last clock of a CTA's warps: its time on the SM, whose clock all of them read. */
static __device__ __forceinline__ void note_span(uint64_t *span, uint64_t start, uint64_t end) {
    atomicMin((unsigned long long *)&span[0], (unsigned long long)start);
    atomicMax((unsigned long long *)&span[1], (unsigned long long)end);
}

/* ---- the host's side ---- */

struct shape {
    int ctas, threads, cluster, shared_bytes;
};

/* Ends the program, naming what failed, but for success. */
void check(const char *what, cudaError_t error);
/* Prints one line; `parameters` is the inside of a JSON object. */
void report(const char *name, const char *parameters, double value, const char *unit);
double median(double *values, int count);
/* A device buffer of 64-bit words that lives as long as the program, all bytes 0xff in words [0, ones). */
uint64_t *results(int words);
/* Launches `kernel` and waits for it. */
void launch(const void *kernel, struct shape shape, void **arguments);
/* The median over launches of words[end] - words[start] that the kernel leaves in results(). */
double measured_span(const void *kernel, struct shape shape, void **arguments, uint64_t *words);
/* Reads as much as L2 holds several times over, so that what was there before is gone. */
void flush_l2(void);
/* The same, and what is there afterwards has been read alone: a load from HBM need not write a line back first.
 */
void replace_l2(void);
int sm_count(void);
/* `bytes` of memory as rows of halves, taken in boxes of `rows` of them; rows of SWIZZLE_ROW bytes are
 * swizzled. */
CUtensorMap tensor_map(unsigned char *memory, size_t bytes, uint32_t row_bytes, uint32_t rows);

/* The same of three dimensions of halves, with bytes between rows and between what lies behind; boxes are as
 * wide as the first dimension. */
CUtensorMap strided_map(unsigned char *memory, const cuuint64_t (&sizes)[3], const cuuint64_t (&strides)[2],
                        uint32_t rows);

/* The same with what of a row L2 takes from memory at a time; the others have 256 bytes. */
CUtensorMap promoted_map(unsigned char *memory, const cuuint64_t (&sizes)[3], const cuuint64_t (&strides)[2],
                         uint32_t rows, CUtensorMapL2promotion promotion);

void alu(void);
void shared_memory(void);
void tensor(void);
void copies(void);
void copy_rates(void);
void synchronisation(void);
void clusters(void);
void launches(void);
void overlap(void);
void starts(void);
void traffic(void);
void hand_over(void);
void past_end(void);
void pages(void);
void last_stores(void);
void prefetches(void);
void fresh(void);
void behind_stores(void);
void rings(void);
void words(void);
void helpers(void);
void first_stage(void);
void beside_mma(void);
void cold(void);
void warp_mma(void);
void producers(void);
void answers(void);
void cluster_fences(void);
void fenced_stores(void);
void touched_lines(void);
void dependents(void);
void left_units(void);
void rounds(void);
void late_warps(void);
void stores_beside_mma(void);
void cluster_rings(void);

#endif
