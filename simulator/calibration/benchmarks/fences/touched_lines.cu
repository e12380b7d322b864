/* A GPU-scope fence long after loads or stores of a number of lines have completed, by the same warp or another
 * warp of its CTA: whether it costs more than a fence with no accesses before it. */
#include "harness.cuh"

#define TURNS     32
#define ANSWERED  2000 /* cycles after which all accesses have completed */
#define LINE_STEP 32   /* words from line to line */

enum touch { TOUCH_NOTHING, TOUCH_LOAD, TOUCH_STORE, TOUCHES };
static const char *const touch_names[] = {"nothing", "load", "store"};

/* Warp `toucher` accesses the lines, then warp 1 executes the fence. span: cycles of all fences. */
template <enum touch touch>
static __global__ void touched_kernel(uint64_t *span, uint32_t *words, uint32_t lines, uint32_t toucher) {
    uint32_t warp = threadIdx.x / WARP_LANES, lane = threadIdx.x % WARP_LANES;
    uint32_t *word = words + lane * LINE_STEP;
    uint64_t all = 0;
#pragma unroll 1
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        if (warp == toucher && lane < lines) {
            /* never true: keeps the load alive */
            if (touch == TOUCH_LOAD && *(volatile uint32_t *)word == 1) {
                span[0] = 0;
            }
            if (touch == TOUCH_STORE) {
                *(volatile uint32_t *)word = 0;
            }
        }
        __syncthreads();
        spin(ANSWERED);
        __syncthreads();
        if (warp == 1) {
            uint64_t start = clock64_now();
            asm volatile("fence.acq_rel.gpu;" ::: "memory");
            all += clock64_now() - start;
        }
        __syncthreads(); /* keeps the other warp's next accesses out of the fence */
    }
    if (threadIdx.x == WARP_LANES) {
        note_span(span, 0, all);
    }
}

template <enum touch touch> static void measure_touched(uint32_t *words, uint32_t lines, uint32_t toucher) {
    uint64_t *span = results(2);
    void *arguments[] = {&span, &words, &lines, &toucher};
    double cycles =
        measured_span((const void *)touched_kernel<touch>, {1, 2 * WARP_LANES, 1, 0}, arguments, span);
    reportf("fence_after_lines_cycles", cycles / TURNS, "cycles",
            "\"touched\": \"%s\", \"lines\": %u, \"by\": \"%s\"", touch_names[touch], lines,
            toucher == 1 ? "its warp" : "another warp");
}

void touched_lines(void) {
    uint32_t *words;
    check("cudaMalloc", cudaMalloc((void **)&words, WARP_LANES * LINE_STEP * sizeof *words));
    check("cudaMemset", cudaMemset(words, 0, WARP_LANES * LINE_STEP * sizeof *words));
    measure_touched<TOUCH_NOTHING>(words, 0, 1);
    for (uint32_t lines = 1; lines <= WARP_LANES; lines *= lines == 2 ? 4 : 2) {
        for (uint32_t toucher = 0; toucher < 2; toucher++) {
            measure_touched<TOUCH_LOAD>(words, lines, toucher);
            measure_touched<TOUCH_STORE>(words, lines, toucher);
        }
    }
    check("cudaFree", cudaFree(words));
}
