/* What the virtual machine keeps for tcgen05: a CTA's tensor memory, who has used it, and each warp's part. */
#ifndef SIM_ISA_TCGEN05_STATE_H
#define SIM_ISA_TCGEN05_STATE_H

#include "async/async.h"
#include "tcgen05_interp.h"
#include "tensorcore/tcgen05.h"

/* Uses of tensor memory, as far as a later one may conflict. */
enum use_kind { USE_NONE, USE_MMA, USE_MMA_SOURCE, USE_CP, USE_SHIFT, USE_LD, USE_ST };

struct tmem_use {
    enum use_kind kind;
    bool write, read;
    uint32_t tag;         /* of an MMA: what the pipelined pair mma -> mma asks to be the same */
    uint32_t clock_index; /* clock index and value that say it is complete */
    uint32_t value;
};

struct tmem_record {
    uint32_t value, pc, tag;
    uint16_t clock_index;
    uint8_t kind;
    bool crowded; /* of a cell's write: there is a list of further reads */
};

/* A column of 16 lanes: the last write and the reads since, the last one of each clock index.  What a cell has
 * no room for is in its list. */
enum { CELL_READS = 3, CELL_ROWS = TMEM_LANES / 16 };
struct cell {
    struct tmem_record write, read[CELL_READS];
};

struct reads {
    struct tmem_record *record;
    uint32_t count, room;
};

/* Operations of one kind in flight from a warp, and the clock index in which their completion is told.  Of ld
 * and st the next index tells what tcgen05.fence::before_thread_sync has covered. */
struct stream {
    uint32_t clock_index;
    uint32_t epoch;  /* of the operations that are issued now */
    uint32_t waited; /* epochs up to this are known to be complete */
    uint32_t pending;
};

struct tensor_warp {
    struct stream pipe;   /* mma, cp, shift: epochs end at a commit */
    struct stream loads;  /* ld: at wait::ld */
    struct stream stores; /* st: at wait::st */
    uint32_t *ordered;    /* clock values made visible to tcgen05 by fence::after_thread_sync */
};

struct tensor {
    uint64_t run; /* which run of the cluster it belongs to: an older state is cleared on first use */
    bool used;
    struct tmem tmem;
    /* The last tcgen05.alloc of each unit of columns: the warp in the cluster, its time; 0: none. */
    struct {
        uint32_t warp, time;
    } alloc[TMEM_UNITS];
    struct cell (*cells)[TMEM_COLUMNS]; /* CELL_ROWS of them; NULL without checks */
    struct reads *more;                 /* each cell's list; NULL before one is needed */
    struct tensor_warp warps[MAX_WARPS];
};

/* The CTA's state, made and cleared as needed. */
struct tensor *tensor_of(struct run *run, struct cta *cta);
struct tensor_warp *tensor_warp(struct run *run);
/* Reports a refusal: incomplete for what is not modelled, else an error.  Returns FAIL. */
enum next tensor_refuse(struct run *run, const char *kind, const struct tc_why *why);

/* ---- hazards (tmem_hazards.c) ---- */

/* Makes the stream's indices; false (reported) where the checks have no room. */
bool stream_open(struct run *run, struct stream *stream, bool fenced);
/* Checks a use of a region against what came before, and remembers it. */
void use_region(struct run *run, struct cta *cta, const struct tmem_region *region,
                const struct tmem_use *access);
/* An MMA or a copy reads shared memory here: review, if what was written came through a barrier with no
 * tcgen05.fence::after_thread_sync since. */
void use_shared_read(struct run *run, const struct cta *cta, uint32_t offset);
/* tcgen05.dealloc: everything in the columns has to be over. */
void use_freed(struct run *run, struct cta *cta, int column, int columns);

/* ---- instructions ---- */
exec_fn tensor_memory_fn(int which);
enum { T_ALLOC, T_DEALLOC, T_RELINQUISH, T_LD, T_ST, T_WAIT_LD, T_WAIT_ST, T_FENCE_BEFORE, T_FENCE_AFTER };
exec_fn tensor_pipe_fn(int which);
enum { T_MMA, T_CP, T_SHIFT, T_COMMIT };

/* What a decoder leaves in insn->tcgen05.form. */
struct tensor_form {
    int cta_group;
    /* ld and st */
    struct tmem_access access; /* address aside */
    /* mma */
    enum tc_kind kind;
    bool ws, a_in_tmem, has_disabled, sparse;
    int scales;
    int d_scale_log2;
    /* cp */
    enum tmem_cp_shape cp_shape;
    enum tmem_cp_format cp_format;
    bool multicast;                       /* commit */
    int64_t offset[MAX_ADDRESS_OPERANDS]; /* of the addresses in op[] */
};

/* The value of an operand that has to be the same in all lanes; false after a report. */
bool tensor_uniform(struct run *run, struct operand operand, uint32_t mask, const char *what, uint64_t *value);

#endif
