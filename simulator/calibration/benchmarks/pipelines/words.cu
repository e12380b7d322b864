/* Words in global memory that one CTA writes and others poll; and the cost of a GPU-scope release after a
 * warp's stores. Both on an idle chip and while every SM copies. */
#include "harness.cuh"

#define TURNS      64
#define SLOTS      8 /* the most copies in flight */
#define SLOT_BYTES 16384
#define FAR_BYTES  ((size_t)1 << 30)
#define NEAR_BYTES ((size_t)16 << 20)
#define ASK_AFTER  8  /* copies after which the copying thread asks whether to end */
#define WORD_APART 32 /* words from one flag to the next: each has its own line */
#define STORES     4  /* stores of a lane before a release */
#define PART_BYTES (TURNS * STORES * WARP_LANES * 16)

enum traffic { IDLE, COPIES_FROM_L2, COPIES_FROM_HBM, TRAFFICS };
static const char *const traffic_names[] = {"none", "copies from L2", "copies from HBM"};

enum order { RELAXED, RELEASED, RELEASED_TO_COPIES };
static const char *const order_names[] = {"relaxed", "release", "fence.proxy.async and release"};

struct word_plan {
    const unsigned char *source;
    uint64_t source_bytes; /* bytes that the copies come from */
    uint32_t *words;       /* the flags: turn, answer, end */
    unsigned char *parts;
    /* slots: copies in flight; first: the first CTA that copies */
    uint32_t askers, slots, first;
};

static __device__ __forceinline__ uint32_t load_word(const uint32_t *word, enum order order) {
    uint32_t value;
    if (order != RELAXED) {
        return ld_acquire_gpu(word);
    }
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
    return value;
}

static __device__ __forceinline__ void store_word(uint32_t *word, uint32_t value, enum order order) {
    if (order == RELAXED) {
        asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
    } else {
        asm volatile("st.release.gpu.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
    }
}

static __device__ __forceinline__ void add_word(uint32_t *word, enum order order) {
    if (order == RELAXED) {
        asm volatile("red.relaxed.gpu.global.add.u32 [%0], 1;" ::"l"(word) : "memory");
    } else {
        red_add_release_gpu(word, 1);
    }
}

/* One thread keeps a ring of copies in flight until the end flag is set. */
static __device__ __forceinline__ void copy_until_over(const struct word_plan &plan, uint32_t memory,
                                                       uint32_t full) {
    uint64_t at = (uint64_t)blockIdx.x * SLOT_BYTES, step = (uint64_t)gridDim.x * SLOT_BYTES;
    uint32_t asked = 0;
    while (asked % ASK_AFTER != 0 || load_word(plan.words + 2 * WORD_APART, RELAXED) == 0) {
        uint32_t slot = asked % plan.slots;
        struct mbarrier barrier = {full + slot * 8};
        if (asked >= plan.slots) {
            wait_parity(barrier, asked / plan.slots + 1 & 1);
        }
        mbarrier_arrive_expect_tx(barrier, SLOT_BYTES);
        cp_async_bulk(memory + slot * SLOT_BYTES, plan.source + (at & (plan.source_bytes - 1)), SLOT_BYTES,
                      barrier);
        at += step;
        asked++;
    }
    /* no copy may outlive its CTA */
    for (uint32_t i = asked > plan.slots ? asked - plan.slots : 0; i < asked; i++) {
        wait_parity({full + i % plan.slots * 8}, i / plan.slots & 1);
    }
}

static __device__ __forceinline__ void settle(void) {
    spin(4000);
}

/* CTA 0 writes a turn's number; each poller then adds one to the answer. Cycles of all turns. */
template <enum order order>
static __device__ __forceinline__ void tell(uint64_t *span, const struct word_plan &plan) {
    uint32_t *announced = plan.words, *answered = plan.words + WORD_APART;
    if (blockIdx.x > 0) {
#pragma unroll 1
        for (uint32_t turn = 1; turn <= TURNS; turn++) {
            while (load_word(announced, order) < turn) {
            }
            add_word(answered, order);
        }
        return;
    }
    settle();
    uint64_t start = clock64_now();
#pragma unroll 1
    for (uint32_t turn = 1; turn <= TURNS; turn++) {
        store_word(announced, turn, order);
        while (load_word(answered, order) < turn * plan.askers) {
        }
    }
    note_span(span, start, clock64_now());
    store_word(plan.words + 2 * WORD_APART, 1, RELAXED);
}

/* A warp's stores and the release that publishes them; CTA 0's cycles. */
template <enum order order>
static __device__ __forceinline__ void store_and_tell(uint64_t *span, const struct word_plan &plan) {
    uint32_t lane = threadIdx.x % WARP_LANES;
    unsigned char *part = plan.parts + (size_t)blockIdx.x * PART_BYTES;
    settle();
    uint64_t start = clock64_now();
#pragma unroll 1
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        for (uint32_t i = 0; i < STORES; i++) {
            *(uint4 *)(part + ((turn * STORES + i) * WARP_LANES + lane) * 16) = make_uint4(turn, i, 0, 0);
        }
        if (order == RELEASED_TO_COPIES) {
            fence_proxy_async_global();
        }
        __syncwarp();
        if (lane == 0) {
            add_word(plan.words + (3 + blockIdx.x) * WORD_APART, order);
        }
        __syncwarp();
    }
    if (lane == 0 && blockIdx.x == 0) {
        note_span(span, start, clock64_now());
        store_word(plan.words + 2 * WORD_APART, 1, RELAXED);
    }
}

/* Warp 0 copies; warp 1 writes, polls or stores. */
template <enum order order, bool stores>
static __global__ void word_kernel(uint64_t *span, struct word_plan plan) {
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ uint64_t full_words[SLOTS];
    uint32_t full = cvta_to_shared(full_words);
    if (threadIdx.x == 0) {
        for (uint32_t slot = 0; slot < SLOTS; slot++) {
            mbarrier_init({full + slot * 8}, 1);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    if (threadIdx.x == 0 && plan.slots > 0 && blockIdx.x >= plan.first) {
        copy_until_over(plan, cvta_to_shared(memory), full);
    } else if (threadIdx.x >= WARP_LANES) {
        if (stores) {
            store_and_tell<order>(span, plan);
        } else if (threadIdx.x == WARP_LANES && blockIdx.x <= plan.askers) {
            tell<order>(span, plan);
        }
    }
}

static double turn_cycles(const void *kernel, struct word_plan plan, int ctas) {
    uint64_t *words = results(2);
    void *arguments[] = {&words, &plan};
    double cycles[LAUNCHES];
    for (int i = -WARM_UP_LAUNCHES; i < LAUNCHES; i++) {
        uint64_t span[2] = {UINT64_MAX, 0};
        check("cudaMemset", cudaMemset(plan.words, 0, (size_t)(3 + ctas) * WORD_APART * sizeof *plan.words));
        check("cudaMemcpy", cudaMemcpy(words, span, sizeof span, cudaMemcpyHostToDevice));
        launch(kernel, {ctas, 2 * WARP_LANES, 1, SLOTS * SLOT_BYTES}, arguments);
        check("cudaMemcpy", cudaMemcpy(span, words, sizeof span, cudaMemcpyDeviceToHost));
        if (i >= 0) {
            cycles[i] = (double)(span[1] - span[0]);
        }
    }
    return median(cycles, LAUNCHES) / TURNS;
}

static struct word_plan plan_of(enum traffic traffic, const struct word_plan &memory, uint32_t askers,
                                uint32_t slots, uint32_t first) {
    struct word_plan plan = memory;
    plan.source_bytes = traffic == COPIES_FROM_HBM ? FAR_BYTES : NEAR_BYTES;
    plan.slots = traffic == IDLE ? 0 : slots;
    plan.askers = askers;
    plan.first = first;
    return plan;
}

/* own: whether the CTAs that write and poll copy as well. */
template <enum order order>
static void measure_words(enum traffic traffic, const struct word_plan &memory, uint32_t askers, uint32_t slots,
                          bool own = true) {
    struct word_plan plan = plan_of(traffic, memory, askers, slots, own ? 0 : askers + 1);
    double cycles = turn_cycles((const void *)word_kernel<order, false>, plan, sm_count());
    reportf("word_round_trip_cycles", cycles, "cycles",
            "\"order\": \"%s\", \"askers\": %u, \"beside\": \"%s\", \"in_flight_bytes\": %u, \"own\": %d",
            order_names[order], askers, traffic_names[traffic], plan.slots * SLOT_BYTES, own);
}

template <enum order order>
static void measure_releases(enum traffic traffic, const struct word_plan &memory, int ctas, uint32_t slots) {
    struct word_plan plan = plan_of(traffic, memory, 0, slots, 0);
    double cycles = turn_cycles((const void *)word_kernel<order, true>, plan, ctas);
    reportf("stores_and_word_cycles", cycles, "cycles",
            "\"order\": \"%s\", \"ctas\": %d, \"beside\": \"%s\", \"in_flight_bytes\": %u", order_names[order],
            ctas, traffic_names[traffic], plan.slots * SLOT_BYTES);
}

void words(void) {
    struct word_plan memory;
    unsigned char *source;
    memset(&memory, 0, sizeof memory);
    check("cudaMalloc", cudaMalloc((void **)&source, FAR_BYTES));
    check("cudaMemset", cudaMemset(source, 0, FAR_BYTES));
    check("cudaMalloc", cudaMalloc((void **)&memory.words, (size_t)(3 + sm_count()) * WORD_APART * 4));
    check("cudaMalloc", cudaMalloc((void **)&memory.parts, (size_t)sm_count() * PART_BYTES));
    memory.source = source;
    const int sms = sm_count();
    measure_words<RELAXED>(IDLE, memory, 1, 0);
    measure_words<RELEASED>(IDLE, memory, 1, 0);
    measure_words<RELEASED>(IDLE, memory, 24, 0);
    measure_releases<RELAXED>(IDLE, memory, 1, 0);
    measure_releases<RELEASED>(IDLE, memory, 1, 0);
    measure_releases<RELEASED>(IDLE, memory, sms, 0);
    measure_releases<RELEASED_TO_COPIES>(IDLE, memory, sms, 0);
    for (int traffic = COPIES_FROM_L2; traffic < TRAFFICS; traffic++) {
        for (uint32_t slots = 1; slots <= SLOTS; slots *= 8) {
            measure_words<RELAXED>((enum traffic)traffic, memory, 1, slots);
            measure_words<RELEASED>((enum traffic)traffic, memory, 1, slots);
            measure_releases<RELAXED>((enum traffic)traffic, memory, sms, slots);
            measure_releases<RELEASED>((enum traffic)traffic, memory, sms, slots);
        }
    }
    measure_words<RELAXED>(COPIES_FROM_L2, memory, 1, SLOTS, false);
    measure_words<RELAXED>(COPIES_FROM_HBM, memory, 1, SLOTS, false);
    measure_releases<RELEASED>(COPIES_FROM_L2, memory, 1, SLOTS);
    check("cudaFree", cudaFree(source));
    check("cudaFree", cudaFree(memory.words));
    check("cudaFree", cudaFree(memory.parts));
}
