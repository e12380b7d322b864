/* A launch, the worker threads that run it, and the simulator that it belongs to. */
#ifndef SIM_MACHINE_LAUNCH_H
#define SIM_MACHINE_LAUNCH_H

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>

#include "ptx/ir.h"
#include "sim.h"

struct cluster;
struct schedule;
struct timing;

/* What the running instruction did to memory, for the clock. */
struct footprint {
    uint64_t address[LANES];
    uint32_t mask, bytes; /* lanes that access global memory, bytes of each */
    uint32_t remote;      /* bytes in another CTA's shared memory */
};

struct allocation {
    uint64_t base, bytes;
    uint64_t place; /* where the clock's caches see it: the same in every run, as `base` is not */
    char *name;
    bool owned;
    struct lines *lines; /* who has used it: hazard/global/global_record.h; NULL without checks */
    /* Freed in a queue, kept for an allocation of as much there; then `bytes` is 0. */
    uint64_t freed_bytes;
    uint32_t freed_in;
};

/* A set of launches: those before floor, and those whose bits are set; bit i of word j is 64 (first + j) + i.
 */
struct known {
    uint32_t floor, first, words;
    uint64_t *bits;
};

/* What a launch knows to be complete, and what its end will tell (hazard/global/order.h). */
struct launch_order {
    uint32_t number;            /* from 1, in the order of submission */
    uint32_t previous;          /* the kernel that lets it start, 0: none */
    struct known start, waited; /* at its start, and after griddepcontrol.wait */
    atomic_bool any_waited;     /* griddepcontrol.wait, in any thread */
    atomic_bool start_implies;  /* a CTA let the next launch start after such a wait */
    atomic_bool lets_start;     /* griddepcontrol.launch_dependents, in any thread */
    bool dependent;             /* start and waited may differ */
    bool delays;                /* others see its stores as late as they are allowed to be */
    bool sees_old;              /* there may be such stores that it does not know */
    uint32_t settled;           /* launches before it are known to every launch that may come */
};

struct launch {
    struct sim *sim;
    const struct module *module;
    const struct function *kernel;
    const char *name;
    uint32_t grid[3], block[3], cluster[3], clusters[3];
    uint32_t threads, warps; /* a CTA */
    uint32_t static_shared, dynamic_shared, shared_bytes;
    uint32_t *shared_at; /* by variable's index: its offset in the shared window, 0: not used */
    uint8_t *params;
    uint32_t param_bytes;
    /* Every reachable function's block of registers, by function index. */
    uint32_t *reg_base, *pred_base, *local_base;
    uint32_t reg_bytes, pred_bytes, local_bytes;
    atomic_uint_fast64_t next_cluster;
    uint64_t ncluster; /* less those at the grid's end that clusterlaunchcontrol has taken */
    atomic_bool stop;
    atomic_bool no_memory; /* why it stopped */
    atomic_uint working;   /* workers that are not through */
    atomic_ullong rounds;  /* of all clusters, that did more than polling */
    enum sim_mode mode;
    uint64_t seed;
    bool checks, uses_wgmma, no_values;
    bool reordered; /* by machine code, whose registers are others than PTX's: those of wgmma are not checked */
    uint64_t workspace; /* of a cooperative launch: its address, for the grid's barrier; 0: none */
    bool clustered;     /* with clusters, were they of one CTA */
    bool dependent;     /* asked for: may start before the previous one is complete */
    struct launch_order order;
    struct races *races; /* NULL: not checked */
    atomic_uint_fast64_t clock;
    struct timing *timing;     /* NULL: no time is simulated */
    struct schedule *schedule; /* what the mode delays (machine/schedule.h); NULL: everything */
};

struct worker {
    struct launch *launch;
    pthread_t thread;
    uint32_t index;
    struct sim_counters counters;
    const struct allocation *last[2];
    struct footprint *footprint; /* NULL: no clock asks */
    struct cluster **resident;   /* running or polling; the first `active`, then some to be used again */
    uint32_t active, made, room;
    struct image_chunk *images; /* what hazard/global/delayed.c takes the next image from */
    jmp_buf unwind;             /* out of whatever it does, where the heap is exhausted */
};

struct sim {
    struct sim_options options;
    char message[512];
    int status; /* of the last failed call */
    struct sim_module *modules;
    struct allocation *allocations; /* sorted by base */
    size_t nallocations, allocations_room;
    struct placement { /* each range that there has been, with simulated time: it keeps its place */
        uint64_t base, bytes, place;
    } *placements;
    size_t nplacements, placements_room;
    struct finding_entry *findings;
    size_t nfindings, findings_room;
    uint64_t times[SIM_INCOMPLETE + 1]; /* how often each verdict was found, whether listed or not */
    uint64_t unlisted;                  /* of those, what the list had no room or memory for */
    atomic_bool unjudged_registers;     /* setmaxnreg, in a kernel whose PTX does not say what it starts with */
    bool run_failed;                    /* a launch that ran had an error or was incomplete */
    struct sim_suppression *suppressions;
    size_t nsuppressions;
    pthread_mutex_t lock;
    struct sim_counters counters;
    struct timing *timing;       /* NULL: no time is simulated */
    struct timeline *order;      /* of launches and copies */
    struct schedule *schedule;   /* of its launches; NULL: the mode delays everything */
    struct shrinking *shrinking; /* what sim_shrink has found last */
};

struct sim_module {
    struct sim_module *next;
    struct sim *sim;
    struct module *ptx;
};

#endif
