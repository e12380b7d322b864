/* What the bulk copies share. */
#ifndef SIM_ASYNC_BULK_H
#define SIM_ASYNC_BULK_H

#include "hazard/global/global_record.h"
#include "tensor_box.h"

/* A copy into shared memory of one or more CTAs, each with its barrier. */
struct destination {
    struct cta *cta;
    uint32_t offset;
    struct mbarrier *barrier;
    uint32_t phase;
};

struct load {
    uint64_t from; /* global address; shared source: from_cta and offset; an answer's: where the host has it */
    struct cta *from_cta;
    uint32_t bytes;
    struct tensor_box box;
    bool tensor;
    bool answer;              /* of a request to the grid: of no memory of the device */
    const struct known *view; /* what its issuer knew of earlier launches: hazard/global/global_record.h */
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
    REDUCE_XOR
};

#define ALL_BYTES 0xffff

struct store {
    uint64_t to;
    uint32_t from, bytes, group;
    uint16_t kept; /* of each 16 bytes, those that are copied: .cp_mask's, else ALL_BYTES */
    struct tensor_box box;
    bool tensor;
    enum reduction reduction;
    uint8_t type;
    const struct known *view;
};

/* Finds the CTAs of a load's destination and their barriers, and checks them; false after a report. */
bool make_destinations(struct run *run, struct load *load, uint64_t to, uint64_t barrier, uint32_t bytes,
                       uint32_t align, int lane, int64_t mask, int cta_group);
/* Stamps the destination for the checks. */
void record_destinations(struct run *run, const struct load *load, uint32_t span, uint32_t counted);
extern const struct async_kind load_kind;
/* With simulated time (async/copy_times.c). */
void load_timed(struct run *run, struct async_op *op);
void store_timed(struct run *run, struct async_op *op);
void prefetch_timed(struct run *run, uint64_t from, uint64_t bytes);
void prefetch_box_timed(struct run *run, const struct tensor_box *box);
/* What is at a global address for an operation whose issuer had the view. */
void take_global(const struct async_op *op, const struct known *view, uint8_t *to, uint64_t from,
                 uint32_t bytes);
/* The bytes from *at on that a store copies, next to each other; moves *at to the first.  0: no more. */
uint32_t store_run(const struct store *store, uint32_t *at);
void issue_store(struct run *run, const struct store *store, uint32_t span, int lane);
void reduce(uint8_t *to, const uint8_t *from, uint32_t bytes, enum reduction reduction, unsigned type);

#endif
