/* Bulk copies between global and shared memory: state shared by cp.async.bulk with and without tensor maps. */
#ifndef SIM_ASYNC_BULK_H
#define SIM_ASYNC_BULK_H

#include "clock/chip.h"
#include "hazard/global/global_record.h"
#include "tensor_box.h"

/* One CTA that a load writes to, and the barrier that it signals there. */
struct destination {
    struct cta *cta;
    uint32_t offset;
    struct mbarrier *barrier;
    uint32_t phase;
};

struct load {
    uint64_t from; /* global address; offset in from_cta, if that is set; host address of an answer */
    struct cta *from_cta;
    uint32_t bytes;
    struct tensor_box box;
    bool tensor;
    bool answer;              /* the answer of clusterlaunchcontrol.try_cancel, not device memory */
    const struct known *view; /* earlier launches known to its issuer (hazard/global/global_record.h) */
    uint32_t destinations;
    struct destination destination[MAX_CLUSTER];
};

enum reduction {
    REDUCE_NONE,
    REDUCE_ADD,
    REDUCE_MIN,
    REDUCE_MAX,
    REDUCE_INC,
    REDUCE_DEC,
    REDUCE_AND,
    REDUCE_OR,
    REDUCE_XOR,
    REDUCE_EXCHANGE, /* atom only, as is the next */
    REDUCE_COMPARE
};

#define ALL_BYTES 0xffff

struct store {
    uint64_t to;
    uint32_t from, bytes, group;
    uint16_t kept; /* byte mask, applied to each 16 bytes (.cp_mask); ALL_BYTES: no mask */
    struct tensor_box box;
    bool tensor;
    enum reduction reduction;
    uint8_t type;
    const struct known *view;
};

/* Fills load->destination with the CTAs and barriers of a load, checked. mask: CTAs of a multicast, -1 without.
 * False after a report. */
bool make_destinations(struct run *run, struct load *load, uint64_t to, uint64_t barrier, uint32_t bytes,
                       uint32_t align, int lane, int64_t mask, int cta_group);
/* Records the writes for the checks: `span` bytes in each destination; `counted` goes to the counters. */
void record_destinations(struct run *run, const struct load *load, uint32_t span, uint32_t counted);
extern const struct async_kind load_kind;
/* With simulated time (async/copy_times.c). */
struct request *copy_request(struct run *run, struct async_op *op, ticks at); /* answered when it is done */
void load_timed(struct run *run, struct async_op *op);
void store_timed(struct run *run, struct async_op *op);
void prefetch_timed(struct run *run, uint64_t from, uint64_t bytes);
void prefetch_box_timed(struct run *run, const struct tensor_box *box);
/* Reads global memory as the operation's issuer sees it (`view`: delayed stores of unknown launches). */
void take_global(const struct async_op *op, const struct known *view, uint8_t *to, uint64_t from,
                 uint32_t bytes);
/* Next contiguous bytes that a store copies: moves *at to their start and returns their length; 0: no more. */
uint32_t store_run(const struct store *store, uint32_t *at);
void issue_store(struct run *run, const struct store *store, uint32_t span, int lane);
/* The result for integers; types of fewer than 8 bytes are zero-extended. */
uint64_t reduced(enum reduction reduction, unsigned type, uint64_t a, uint64_t b);
void reduce(uint8_t *to, const uint8_t *from, uint32_t bytes, enum reduction reduction, unsigned type);

#endif
