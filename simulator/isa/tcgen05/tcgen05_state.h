/* State of tcgen05: a CTA's tensor memory, the record of its uses, and each warp's operations in flight. */
#ifndef SIM_ISA_TCGEN05_STATE_H
#define SIM_ISA_TCGEN05_STATE_H

#include "async/async.h"
#include "tcgen05_interp.h"
#include "tensorcore/tcgen05.h"

/* Kinds of uses of tensor memory, for the checks. */
enum use_kind { USE_NONE, USE_MMA, USE_MMA_SOURCE, USE_CP, USE_SHIFT, USE_LD, USE_ST };

struct tmem_use {
    enum use_kind kind;
    bool write, read;
    uint32_t tag; /* an MMA's accumulator and shape, which must match in the pipelined pair mma -> mma */
    uint32_t clock_index; /* the use is complete once a clock has reached `value` at this index */
    uint32_t value;
};

struct tmem_record {
    uint32_t value, pc, tag;
    uint16_t clock_index;
    uint8_t kind;
    bool crowded; /* in a cell's `write`: further reads are in the tensor's list */
};

/* One column of 16 lanes: the last write, and the reads since then, the latest one for each clock index. Reads
 * that do not fit are in tensor->more. */
enum { CELL_READS = 3, CELL_ROWS = TMEM_LANES / 16 };
struct cell {
    struct tmem_record write, read[CELL_READS];
};

struct reads {
    struct tmem_record *record;
    uint32_t count, room;
};

/* A warp's operations of one kind in flight, and the clock index of their completion. For ld and st, the next
 * index stands for what tcgen05.fence::before_thread_sync has covered. */
struct stream {
    uint32_t clock_index;
    uint32_t epoch;  /* epoch of operations issued now */
    uint32_t waited; /* epochs up to this one have been waited for */
    uint32_t pending;
};

struct tensor_warp {
    struct stream pipe;   /* mma, cp, shift; a commit ends an epoch */
    struct stream loads;  /* ld; wait::ld ends an epoch */
    struct stream stores; /* st; wait::st ends an epoch */
    uint32_t *ordered;    /* what the warp had acquired at its last fence::after_thread_sync */
};

struct tensor {
    uint64_t run; /* which cluster's run the state belongs to; it is cleared on first use in a later one */
    bool used;
    struct tmem tmem;
    /* The last tcgen05.alloc of each unit of columns: its warp in the cluster and clock value; time 0: none. */
    struct {
        uint32_t warp, time;
    } alloc[TMEM_UNITS];
    struct cell (*cells)[TMEM_COLUMNS]; /* CELL_ROWS of them; NULL without checks */
    struct reads *more;                 /* reads beyond CELL_READS, a list per cell; NULL until needed */
    struct tensor_warp warps[MAX_WARPS];
};

/* The CTA's state, allocated and cleared as needed. */
struct tensor *tensor_of(struct run *run, struct cta *cta);
struct tensor_warp *tensor_warp(struct run *run);
/* Reports why tensorcore/ refused an operand: incomplete if it is not modelled, otherwise an error. Returns
 * FAIL. */
enum next tensor_refuse(struct run *run, const char *kind, const struct tc_why *why);

/* ---- hazards (tmem_hazards.c) ---- */

/* Allocates the stream's clock indices; false after a report that the checks have no room. */
bool stream_open(struct run *run, struct stream *stream, bool fenced);
/* Checks a use of a region against earlier uses, and records it. */
void use_region(struct run *run, struct cta *cta, const struct tmem_region *region,
                const struct tmem_use *access);
/* An MMA or copy reads shared memory: reports for review if the data was ordered by a barrier with no
 * tcgen05.fence::after_thread_sync since. */
void use_shared_read(struct run *run, const struct cta *cta, uint32_t offset);
/* tcgen05.dealloc: reports uses of the columns that are not known to be complete. */
void use_freed(struct run *run, struct cta *cta, int column, int columns);

/* ---- instructions ---- */
exec_function tensor_alloc, tensor_dealloc, tensor_relinquish, tensor_access, tensor_wait_ld, tensor_wait_st;
exec_function tensor_fence_before, tensor_fence_after, pipe_mma, pipe_cp, pipe_shift, pipe_commit;

/* insn->tcgen05.form: the parts of a mnemonic that are known when it is decoded. */
struct tensor_form {
    int cta_group;
    /* ld and st */
    struct tmem_access access; /* all but the address */
    /* mma */
    enum tc_kind kind;
    bool ws, a_in_tmem, has_disabled, sparse;
    int scales;
    int d_scale_log2;
    /* cp */
    enum tmem_cp_shape cp_shape;
    enum tmem_cp_format cp_format;
    bool multicast;                       /* commit */
    int64_t offset[MAX_ADDRESS_OPERANDS]; /* constants added to the addresses in op[] */
};

/* Reads an operand that must be the same in all lanes; false after a report. */
bool tensor_uniform(struct run *run, struct operand operand, uint32_t mask, const char *what, uint64_t *value);

#endif
