/* Copies that a CTA keeps in flight while its other warps are timed. */
#ifndef MICRO_TRAFFIC_CUH
#define MICRO_TRAFFIC_CUH

#include "harness.cuh"

#define SLOT_BYTES 8192
#define MAX_SLOTS  16
#define FAR_BYTES  ((size_t)1 << 30)  /* comes from HBM: nearly every byte is read once */
#define NEAR_BYTES ((size_t)16 << 20) /* stays in L2 */

struct ring_traffic {
    const unsigned char *source;
    uint64_t bytes; /* bytes of the source: a power of two */
    uint32_t slots; /* copies in flight */
};

/* One thread keeps a ring of copies in flight until the other warps have had their turns. */
static __device__ __forceinline__ void copy_meanwhile(const struct ring_traffic &traffic, uint32_t memory,
                                                      uint32_t full, const volatile uint32_t *over) {
    uint64_t at = (uint64_t)blockIdx.x * SLOT_BYTES, step = (uint64_t)gridDim.x * SLOT_BYTES;
    uint32_t asked = 0, seen = 0;
    while (seen < asked || *over == 0) {
        bool more = *over == 0;
        if (asked - seen == traffic.slots || !more) {
            wait_parity({full + seen % traffic.slots * 8}, seen / traffic.slots & 1);
            seen++;
        }
        if (more) {
            uint32_t slot = asked % traffic.slots;
            mbarrier_arrive_expect_tx({full + slot * 8}, SLOT_BYTES);
            cp_async_bulk(memory + slot * SLOT_BYTES, traffic.source + (at & (traffic.bytes - 1)), SLOT_BYTES,
                          {full + slot * 8});
            at += step;
            asked++;
        }
    }
}

#endif
