/* A launch, the worker threads that run it, and the simulator that owns both. */
#ifndef SIM_MACHINE_LAUNCH_H
#define SIM_MACHINE_LAUNCH_H

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>

#include "ptx/ir.h"
#include "sim.h"

struct cluster;
struct heap;
struct image_chunk;
struct schedule;
struct timing;

/* The memory accesses of the running instruction, for the clock. */
struct footprint {
    uint64_t address[LANES];
    uint32_t mask, bytes; /* lanes that access global memory, bytes for each lane */
    uint32_t remote;      /* bytes in shared memory of other CTAs */
};

struct allocation {
    uint64_t base, bytes;
    uint64_t place; /* its address for the clock's caches: the same in every run, unlike `base` */
    char *name;
    bool owned;
    struct lines *lines; /* its shadow record (hazard/global/global_record.h); NULL without checks */
    /* Freed in a queue and kept for an allocation of the same size in that queue; then `bytes` is 0. */
    uint64_t freed_bytes;
    uint32_t freed_in;
};

/* A set of launches by number: all below `floor`, and those whose bits are set.  Bit i of word j stands for
 * 64 (first + j) + i. */
struct known {
    uint32_t floor, first, words;
    uint64_t *bits;
};

/* The place of a launch in the order of launches (hazard/global/order.h). */
struct launch_order {
    uint32_t number;             /* from 1, in the order of submission */
    uint32_t previous;           /* the kernel that lets it start early; 0: none */
    struct known start, waited;  /* launches known complete at its start, and after griddepcontrol.wait */
    atomic_bool any_waited;      /* some thread has executed griddepcontrol.wait */
    atomic_bool start_implies;   /* some CTA had waited when it let the next launch start */
    atomic_bool lets_start;      /* some thread has executed griddepcontrol.launch_dependents */
    bool dependent;              /* `start` and `waited` may differ */
    bool delays;                 /* its stores become visible as late as allowed (hazard/global/delayed.c) */
    bool sees_old;               /* earlier launches may have delayed stores that it does not know */
    uint32_t settled;            /* every launch to come knows all launches before this number */
    struct image_chunk **images; /* its delayed stores (hazard/global/delayed.c) */
};

struct launch {
    struct sim *sim;
    const struct module *module;
    const struct function *kernel;
    const char *name;
    uint32_t grid[3], block[3], cluster[3], clusters[3];
    uint32_t threads, warps; /* per CTA */
    uint32_t static_shared, dynamic_shared, shared_bytes;
    uint32_t shared_floor; /* the first address of shared memory that the kernel may use */
    uint32_t *shared_at;   /* by index of the variable: its offset in the shared window; 0: not used */
    uint8_t *params;
    uint32_t param_bytes;
    /* The block of registers of every reachable function, by function index. */
    uint32_t *reg_base, *pred_base, *local_base;
    uint32_t reg_bytes, pred_bytes, local_bytes;
    uint32_t call_depth; /* most calls inside each other */
    /* Functions may call themselves: local_stack is where the frames of inner activations begin in local
     * memory, and wide_row says by row of registers whether it holds 64 bits. */
    bool recursive, uses_heap;
    uint32_t local_stack;
    uint8_t *wide_row;
    atomic_uint_fast64_t next_cluster;
    uint64_t
        ncluster; /* clusters to run: those that clusterlaunchcontrol took from the end of the grid are gone */
    atomic_bool stop;
    atomic_bool no_memory; /* it stopped because the heap is exhausted */
    atomic_uint working;   /* workers still running */
    atomic_ullong rounds;  /* scheduler rounds of all clusters in which some warp did more than poll */
    enum sim_mode mode;
    uint64_t seed;
    bool checks, uses_wgmma, no_values;
    bool asynchronous;  /* some instruction may use memory or registers asynchronously */
    bool reordered;     /* runs in the order of machine code, so that wgmma's PTX registers cannot be checked */
    uint64_t workspace; /* address of the workspace for grid-wide barriers of a cooperative launch; 0: none */
    bool clustered;     /* launched with a cluster dimension, even of one CTA */
    bool dependent;     /* launched with programmatic stream serialization */
    struct launch_order order;
    struct races *races; /* hazard/releases.c; NULL: no checks of global races */
    atomic_uint_fast64_t clock;
    struct sim_progress *progress; /* NULL: nobody reads it */
    struct timing *timing;         /* NULL: no time is simulated */
    struct schedule *schedule;     /* the operations that the mode delays (machine/schedule.h); NULL: all */
};

struct worker {
    struct launch *launch;
    pthread_t thread;
    uint32_t index;
    struct sim_counters counters;
    uint64_t told; /* instructions of `counters` that the launch's progress has */
    const struct allocation *last[2];
    struct footprint *footprint; /* NULL: no time is simulated */
    struct cluster **resident;   /* the first `active` run or poll, the others are kept for reuse */
    uint32_t active, made, room;
    struct image_chunk *images; /* the chunk that hazard/global/delayed.c takes the next image from */
    jmp_buf unwind;             /* where to go on when the heap is exhausted */
};

struct sim {
    struct sim_options options;
    struct heap *heap; /* machine/heap.h; NULL: no kernel has called malloc */
    uint64_t heap_bytes;
    char message[512];
    int status; /* the last failed call's */
    struct sim_module *modules;
    struct allocation *allocations; /* sorted by base */
    size_t nallocations;
    uint32_t allocations_room;
    struct placement { /* with simulated time: every range allocated so far, which keeps its `place` */
        uint64_t base, bytes, place;
    } *placements;
    size_t nplacements;
    uint32_t placements_room;
    struct finding_entry *findings;
    size_t nfindings;
    uint32_t findings_room;
    uint64_t times[SIM_INCOMPLETE + 1]; /* findings by verdict, whether listed or not */
    _Atomic uint64_t noted;             /* findings, those that a suppression hides included */
    uint64_t unlisted;                  /* findings that the list had no room or memory for */
    atomic_bool unjudged_registers; /* a kernel uses setmaxnreg without saying its registers at the launch */
    atomic_bool unchecked_ctas;     /* a launch had more CTAs than options.checked_ctas */
    bool run_failed;                /* a launch that ran had an error or was incomplete */
    struct sim_suppression *suppressions;
    size_t nsuppressions;
    pthread_mutex_t lock;          /* of the findings */
    const atomic_int *interrupted; /* the signal that ends its launches; 0: none */
    atomic_int interruption;       /* what `interrupted` points to, but in a trial of sim_shrink */
    struct sim_counters counters;
    struct timing *timing;         /* NULL: no time is simulated */
    struct launch_sequence *order; /* the order of launches and copies (hazard/global/order.h) */
    struct schedule *schedule;     /* for its launches; NULL: the mode delays everything */
    struct shrinking *shrinking;   /* the last result of sim_shrink */
};

/* A signal ends the launch before its clusters have. */
static inline bool launch_interrupted(const struct launch *launch) {
    return atomic_load_explicit(launch->sim->interrupted, memory_order_relaxed) != 0;
}

/* Tells who reads the launch's progress what the worker has executed, and how many of its CTAs have ended. */
static inline void worker_progress(struct worker *worker, uint32_t ended) {
    struct sim_progress *progress = worker->launch->progress;
    worker->counters.ctas += ended;
    if (progress != NULL) {
        (void)__atomic_fetch_add(&progress->ended, ended, __ATOMIC_RELAXED);
        (void)__atomic_fetch_add(&progress->instructions, worker->counters.instructions - worker->told,
                                 __ATOMIC_RELAXED);
        worker->told = worker->counters.instructions;
    }
}

struct sim_module {
    struct sim_module *next;
    struct sim *sim;
    struct module *ptx;
};

#endif
