/* Bulk stores of one thread to global memory: cycles until shared memory has been read (wait_group.read), until
 * the stores are complete (wait_group), and until a GPU-scope fence after them completes. */
#include "harness.cuh"

#define TURNS      32
#define LEAST_UNIT 4096
#define MOST_UNIT  65536
#define KEPT       4 /* turns until the same bytes are written again */

enum until { UNTIL_READ, UNTIL_WRITTEN, UNTIL_FENCED };
static const char *const until_names[] = {"read", "written", "fenced"};

template <enum until until>
static __global__ void left_kernel(uint64_t *span, unsigned char *units, uint32_t bytes) {
    extern __shared__ __align__(128) unsigned char memory[];
    uint64_t start = clock64_now();
#pragma unroll 1
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        unsigned char *to = units + ((size_t)(turn % KEPT) * gridDim.x + blockIdx.x) * MOST_UNIT;
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to),
                     "r"(cvta_to_shared(memory)), "r"(bytes)
                     : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        if (until == UNTIL_READ) {
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        } else {
            asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
        }
        if (until == UNTIL_FENCED) {
            asm volatile("fence.acq_rel.gpu;" ::: "memory");
        }
    }
    if (blockIdx.x == 0) {
        note_span(span, start, clock64_now());
    }
    /* no copy may outlive its CTA */
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

template <enum until until> static void measure_left(unsigned char *units, int ctas, uint32_t bytes) {
    uint64_t *span = results(2);
    void *arguments[] = {&span, &units, &bytes};
    double cycles = measured_span((const void *)left_kernel<until>, {ctas, 1, 1, MOST_UNIT}, arguments, span);
    reportf("left_unit_cycles", cycles / TURNS, "cycles", "\"bytes\": %u, \"until\": \"%s\", \"ctas\": %d",
            bytes, until_names[until], ctas);
}

void left_units(void) {
    unsigned char *units;
    check("cudaMalloc", cudaMalloc((void **)&units, (size_t)KEPT * sm_count() * MOST_UNIT));
    for (int ctas = 1; ctas <= sm_count(); ctas += sm_count() - 1) {
        for (uint32_t bytes = LEAST_UNIT; bytes <= MOST_UNIT; bytes *= 4) {
            measure_left<UNTIL_READ>(units, ctas, bytes);
            measure_left<UNTIL_WRITTEN>(units, ctas, bytes);
            measure_left<UNTIL_FENCED>(units, ctas, bytes);
        }
    }
    check("cudaFree", cudaFree(units));
}
