/* Launches: the gap between dependent kernels, with and without PDL, how fast CTAs start, the SM's clock. */
#include "harness.cuh"

#define KERNELS_IN_A_ROW 200
#define MAX_CTAS         4096
#define SPIN_CYCLES      200000
/* cycles that a CTA spins, so that a wave fills the chip before its first CTA ends */
#define STAMP_SPIN 4000

/* The shape of a launch. */
struct launch_kind {
    int cluster, shared_bytes;
    bool pdl;
};

static __global__ void empty_kernel(void) {
    griddepcontrol_launch_dependents();
    griddepcontrol_wait();
}

/* Each CTA writes down the times of its start, of griddepcontrol.wait's return, and of its end. */
static __global__ void stamp_kernel(uint64_t *stamps, uint32_t spin_cycles) {
    uint64_t start = globaltimer_now(), clock = clock64_now();
    griddepcontrol_launch_dependents();
    griddepcontrol_wait();
    uint64_t released = globaltimer_now();
    while (clock64_now() - clock < spin_cycles) {
    }
    if (threadIdx.x == 0) {
        stamps[blockIdx.x * 3] = start;
        stamps[blockIdx.x * 3 + 1] = released;
        stamps[blockIdx.x * 3 + 2] = globaltimer_now();
    }
}

static __global__ void clock_kernel(uint64_t *out, uint64_t cycles) {
    uint64_t clock = clock64_now(), timer = globaltimer_now();
    while (clock64_now() - clock < cycles) {
    }
    out[0] = clock64_now() - clock;
    out[1] = globaltimer_now() - timer;
}

/* Microseconds for each launch of a row of empty kernels. A spinning kernel runs before them, so that all are
 * enqueued when the first starts and the host's speed does not matter. */
static void measure_row(struct launch_kind kind, int ctas, int threads) {
    allow_shared((const void *)empty_kernel, kind.shared_bytes);
    double us = queued_us(KERNELS_IN_A_ROW, [&] {
        enqueue((const void *)empty_kernel, {ctas, threads, kind.cluster, kind.shared_bytes}, kind.pdl, NULL);
    });
    reportf("launch_in_a_row_us", us, "us",
            "\"ctas\": %d, \"threads\": %d, \"cluster\": %d, \"shared_bytes\": %d, \"pdl\": %d", ctas, threads,
            kind.cluster, kind.shared_bytes, kind.pdl);
}

struct moments {
    double first_start, last_start, first_released, last_end;
};

static struct moments moments_of(const uint64_t *stamps, int ctas) {
    struct moments m = {1e30, 0, 1e30, 0};
    for (int c = 0; c < ctas; c++) {
        double start = (double)stamps[c * 3], released = (double)stamps[c * 3 + 1],
               end = (double)stamps[c * 3 + 2];
        m.first_start = start < m.first_start ? start : m.first_start;
        m.last_start = start > m.last_start ? start : m.last_start;
        m.first_released = released < m.first_released ? released : m.first_released;
        m.last_end = end > m.last_end ? end : m.last_end;
    }
    return m;
}

/* Two kernels whose CTAs write down their times: from the first kernel's end, when the second starts and when
 * its wait returns. */
static void measure_pair(struct launch_kind kind, int ctas, int threads) {
    static uint64_t stamps[2][MAX_CTAS * 3];
    uint64_t *first = results(6 * MAX_CTAS), *second = first + 3 * MAX_CTAS;
    uint32_t spin = STAMP_SPIN;
    struct shape shape = {ctas, threads, kind.cluster, kind.shared_bytes};
    void *arguments[2][2] = {{&first, &spin}, {&second, &spin}};
    double start_gap[LAUNCHES], released_gap[LAUNCHES], spread[LAUNCHES];
    allow_shared((const void *)stamp_kernel, kind.shared_bytes);
    for (int i = -WARM_UP_LAUNCHES; i < LAUNCHES; i++) {
        enqueue((const void *)stamp_kernel, shape, kind.pdl, arguments[0]);
        enqueue((const void *)stamp_kernel, shape, kind.pdl, arguments[1]);
        check("pair", cudaStreamSynchronize(queue()));
        for (int k = 0; k < 2; k++) {
            check("cudaMemcpy",
                  cudaMemcpy(stamps[k], k == 0 ? first : second, (size_t)ctas * 24, cudaMemcpyDeviceToHost));
        }
        if (i >= 0) {
            struct moments before = moments_of(stamps[0], ctas), after = moments_of(stamps[1], ctas);
            start_gap[i] = after.first_start - before.last_end;
            released_gap[i] = after.first_released - before.last_end;
            spread[i] = before.last_start - before.first_start;
        }
    }
    char parameters[160];
    snprintf(parameters, sizeof parameters,
             "\"ctas\": %d, \"threads\": %d, \"cluster\": %d, \"shared_bytes\": %d, \"pdl\": %d", ctas, threads,
             kind.cluster, kind.shared_bytes, kind.pdl);
    report("next_kernel_start_ns", parameters, median(start_gap, LAUNCHES),
           "ns after the previous kernel's last CTA");
    report("next_kernel_released_ns", parameters, median(released_gap, LAUNCHES),
           "ns after the previous kernel's last CTA");
    report("cta_start_spread_ns", parameters, median(spread, LAUNCHES), "ns from first to last CTA's start");
}

void launches(void) {
    int sms = sm_count();
    uint64_t *out = results(2), measured[2];
    uint64_t cycles = SPIN_CYCLES;
    void *arguments[] = {&out, &cycles};
    launch((const void *)clock_kernel, {1, 1, 1, 0}, arguments);
    launch((const void *)clock_kernel, {1, 1, 1, 0}, arguments);
    check("cudaMemcpy", cudaMemcpy(measured, out, sizeof measured, cudaMemcpyDeviceToHost));
    report("sm_clock_ghz", "", (double)measured[0] / (double)measured[1], "GHz");
    static const struct launch_kind kinds[] = {{1, 0, false},          {1, 0, true},
                                               {1, 200 * 1024, false}, {1, 200 * 1024, true},
                                               {2, 200 * 1024, false}, {2, 200 * 1024, true}};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        int ctas[] = {2, sms / 2 * 2, 8 * (sms / 2 * 2)};
        for (size_t c = 0; c < sizeof ctas / sizeof *ctas; c++) {
            for (int threads = 128; threads <= 384; threads += 256) {
                measure_row(kinds[k], ctas[c], threads);
                measure_pair(kinds[k], ctas[c], threads);
            }
        }
    }
}
