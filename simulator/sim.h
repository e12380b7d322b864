/* The interface of the library: a PTX virtual machine for sm_90a, sm_100a, sm_120a and sm_121a kernels.
 *
 *     struct sim *sim = sim_create(&options);
 *     struct sim_module *module = sim_load(sim, text, bytes);
 *     void *buffer = sim_alloc(sim, bytes, "weights");
 *     sim_launch(sim, module, "kernel", &launch);
 *     sim_verdict(sim); sim_finding(sim, i);
 *
 * A device address is a host address: the host may read and write memory from sim_alloc between launches, and
 * sim_register makes memory of the caller accessible to kernels.  Any other access by a kernel is an error.  A
 * launch has run when sim_launch returns.  Not thread-safe: use a sim from one thread at a time. */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

#define SIM_VERSION "0.1.0" /* as in python/ptxsim/__init__.py */

#define SIM_API __attribute__((visibility("default")))

#define SIM_MODES "eager, late, reverse, random:SEED or poison"

/* When asynchronous operations take effect. */
enum sim_mode {
    SIM_EAGER,   /* at once */
    SIM_LATE,    /* when nothing else can run, oldest first */
    SIM_REVERSE, /* when nothing else can run, newest first */
    SIM_RANDOM,  /* at moments drawn from the seed; warps take turns at random too */
    SIM_POISON,  /* like late; destinations hold a trap pattern from issue on */
};

enum sim_verdict {
    SIM_CLEAN,
    SIM_REVIEW, /* not guaranteed by PTX, but common practice relies on it */
    SIM_ERROR,
    SIM_INCOMPLETE, /* something is not modelled; never a success */
};

enum sim_status {
    SIM_OK,
    SIM_BAD_ARGUMENT,
    SIM_BAD_PTX,
    SIM_NO_MEMORY, /* the heap is exhausted, which ends a run at any point */
    SIM_NO_KERNEL,
    SIM_RUN_ERROR, /* the launch ran and has an error finding; other failures have the finding launch-refused */
};

/* How far the launch that runs now has come.  Another thread or process may read it at any time. */
struct sim_progress {
    uint64_t ctas; /* of its grid; 0: no launch runs */
    uint64_t ended;
    uint64_t instructions; /* warp instructions so far; after the launch, all of its */
    uint64_t expected;     /* those of the launch before, if it was of the same kernel and size; else 0 */
    uint64_t size;         /* CTAs of the last launch that began */
    uint64_t began_ns;     /* CLOCK_MONOTONIC */
    char kernel[200];      /* as in the PTX, cut off */
};

struct sim_options {
    enum sim_mode mode;
    uint64_t seed;
    int threads;               /* 0: one for each core */
    int no_checks;             /* execute only, without happens-before checks */
    unsigned sms;              /* value of %nsmid, and SMs of the CUDA runtime shim; 0: 132 or 148 */
    uint64_t max_instructions; /* limit for a warp in a launch; 0: 2^32, about a minute */
    const char *chip;          /* simulate time on h200, b200, or the chip of a JSON file; NULL: no time */
    int no_values;             /* MMAs leave their results unchanged: for time, if nothing depends on them */
    int timeline;              /* record spans for sim_span; only with a chip */
    /* A folder with the machine code that ptxas made of modules (simulator/python/machine_code); the text of a
     * module that it lacks is stored there.  Only with a chip.  NULL: time the PTX. */
    const char *machine_code;
    struct sim_progress *progress; /* written while launches run; NULL: nobody reads it */
    uint64_t checked_ctas;         /* check the first CTAs of each launch, execute the others; 0: all */
};

struct sim_finding {
    enum sim_verdict verdict;
    const char *kind;    /* a stable name, e.g. "read-before-completion" */
    const char *message; /* a sentence about the cause */
    const char *kernel;
    uint32_t cta[3];
    int32_t warp, lane;     /* -1: none in particular */
    int64_t offset;         /* the byte's offset in the allocation or in the CTA's shared memory; -1: none */
    const char *allocation; /* name of the allocation in global memory; "": shared memory */
    uint32_t ptx_line;
    const char *ptx;         /* the instruction in the PTX, "" if unknown */
    const char *source;      /* "file:line", "" if unknown */
    uint32_t other_ptx_line; /* the other access's; 0: none */
    const char *other_ptx, *other_source;
    uint64_t times;  /* how often it was found */
    uint32_t launch; /* from 1 in the order of submission, copies included; 0: it never ran */
    /* The launch of the other access if it is another one, else 0 and "".  A copy has a name but no lines. */
    uint32_t other_launch;
    const char *other_kernel;
    const char *variable; /* that holds the byte: "NAME" or "NAME + 0xOFFSET", demangled; "": none known */
};

struct sim_launch_attributes {
    uint32_t grid[3], block[3], cluster[3]; /* cluster 0: as declared by the kernel, else 1 */
    uint32_t dynamic_shared_bytes;
    int programmatic_dependent; /* may start before the previous launch is complete */
    int cooperative;            /* all CTAs run at once, with a workspace for grid-wide barriers */
    void *const *arguments;     /* a pointer for each parameter, as for cudaLaunchKernel */
    size_t argument_count;
};

/* Counters since sim_create. */
struct sim_counters {
    uint64_t launches, ctas;
    uint64_t instructions;    /* warp instructions */
    uint64_t by_class[16];    /* by class of instruction: sim_class_name */
    uint64_t by_warp[32][16]; /* by index of the warp in its CTA, and class */
    uint64_t tma_load_bytes, tma_store_bytes;
    uint64_t global_load_bytes, global_store_bytes, shared_load_bytes, shared_store_bytes;
    uint64_t global_load_sectors, global_store_sectors;  /* sectors of 32 bytes */
    uint64_t shared_wavefronts, shared_ideal_wavefronts; /* the difference is due to bank conflicts */
    uint64_t tensor_instructions, tensor_macs;
    uint64_t tensor_cycles; /* cycles of one SM's tensor cores at the published rate */
    uint64_t barrier_waits, barrier_waits_blocked;
    uint64_t async_operations;
    double seconds;     /* host time */
    double cpu_seconds; /* of all host threads */
};

struct sim;
struct sim_module;

SIM_API struct sim *sim_create(const struct sim_options *options); /* NULL: defaults */
SIM_API void sim_destroy(struct sim *sim);
/* Status and message of the last failed call. */
SIM_API enum sim_status sim_status(const struct sim *sim);
SIM_API const char *sim_message(const struct sim *sim);

/* NULL: sim_message says why.  A kernel whose body cannot be read is refused only when it is launched. */
SIM_API struct sim_module *sim_load(struct sim *sim, const char *ptx, size_t bytes);
/* Address and size of a global variable of a module. */
SIM_API void *sim_global(struct sim_module *module, const char *name, size_t *bytes);
SIM_API const char *sim_kernel_name(const struct sim_module *module, size_t index);   /* NULL past the end */
SIM_API int sim_parameter_count(const struct sim_module *module, const char *kernel); /* -1: no such kernel */
SIM_API size_t sim_parameter_bytes(const struct sim_module *module, const char *kernel, int index);
SIM_API size_t sim_parameter_offset(const struct sim_module *module, const char *kernel, int index);

/* What a kernel needs and what its PTX bounds. */
struct sim_kernel_needs {
    unsigned target;         /* that its PTX is for: 90 for sm_90a */
    size_t shared_bytes;     /* static shared variables of the kernel and of the functions it calls */
    size_t local_bytes;      /* of a thread: local variables and call parameters of the PTX */
    size_t constant_bytes;   /* constants of its module */
    unsigned threads;        /* most in a block (.maxntid, .reqntid); 0: not bounded */
    unsigned ctas_of_sm;     /* at least (.minnctapersm); 0: not said */
    unsigned most_registers; /* of a thread (.maxnreg); 0: not bounded */
    unsigned registers;      /* of a thread, of machine code (sim_options); 0: not known */
};
/* False: no such kernel, its body cannot be read, or there is no memory. */
SIM_API bool sim_kernel_needs(const struct sim_module *module, const char *kernel,
                              struct sim_kernel_needs *needs);

SIM_API void *sim_alloc(struct sim *sim, size_t bytes,
                        const char *name); /* 256-byte aligned, filled with a trap pattern */
SIM_API int sim_free(struct sim *sim, void *address);
/* Bytes that kernels may have allocated by malloc at a time (8 MB if not set).  False: a kernel that calls
 * malloc has been launched already. */
SIM_API bool sim_set_heap(struct sim *sim, size_t bytes);
/* Call for a new allocation that the host writes by copies and fills only: a kernel's read of bytes that
 * neither they nor a kernel have written is then reported.  Memory that comes back from sim_free_in_queue
 * counts as written. */
SIM_API void sim_device_only(struct sim *sim, const void *address);
/* In the selected queue: memory freed in a queue may be reused by later allocations there. */
SIM_API void *sim_alloc_in_queue(struct sim *sim, size_t bytes, const char *name);
SIM_API int sim_free_in_queue(struct sim *sim, void *address);
SIM_API int sim_register(struct sim *sim, void *address, size_t bytes, const char *name);
SIM_API int sim_unregister(struct sim *sim, void *address);
SIM_API bool sim_has(const struct sim *sim, const void *address,
                     size_t bytes); /* true: all in one allocation */
/* The name that sim_alloc or sim_register gave to the allocation that holds a byte; NULL: none holds it. */
SIM_API const char *sim_name_of(const struct sim *sim, const void *address, size_t *offset, size_t *bytes);
SIM_API int sim_write(struct sim *sim, void *to, const void *from, size_t bytes);
SIM_API int sim_read(struct sim *sim, void *to, const void *from, size_t bytes);
SIM_API int sim_fill(struct sim *sim, void *to, int value, size_t bytes); /* memset */
/* Copies between any two addresses; memory outside all allocations is the host's. */
SIM_API int sim_copy(struct sim *sim, void *to, const void *from, size_t bytes);

/* ---- order: queues (CUDA streams), events, and waits of the host ----
 *
 * Launches and copies run when they are called.  The checks order each of them after what a card would have to
 * wait for: everything in the same queue, but with programmatic_dependent only what griddepcontrol waits for;
 * and work in other queues through events, waits of the host, and the legacy default queue, number 0. */
SIM_API unsigned sim_queue_create(struct sim *sim, int blocking); /* 0: no memory */
SIM_API void sim_queue_destroy(struct sim *sim, unsigned queue);
SIM_API void sim_queue_select(struct sim *sim, unsigned queue); /* the queue of later launches and copies */
SIM_API int sim_queue_synchronize(struct sim *sim, unsigned queue);
SIM_API int sim_queues_synchronize(struct sim *sim);
struct sim_event;
SIM_API struct sim_event *sim_event_record(struct sim *sim, unsigned queue); /* NULL: no memory */
SIM_API int sim_queue_wait(struct sim *sim, unsigned queue, const struct sim_event *event);
SIM_API int sim_event_synchronize(struct sim *sim, const struct sim_event *event);
SIM_API void sim_event_free(struct sim_event *event);

SIM_API int sim_launch(struct sim *sim, struct sim_module *module, const char *kernel,
                       const struct sim_launch_attributes *attributes);
/* May be called at any time, by any thread and by a signal's handler: ends the launch that runs, and every
 * later one before it begins.  From then on the verdict is incomplete, whatever was found. */
SIM_API void sim_interrupt(struct sim *sim, int signal);
SIM_API int sim_interrupted(const struct sim *sim); /* that signal; 0: none */

/* ---- the smallest set of delays that shows a finding ---- */

/* A delayed asynchronous operation; in mode random also the fact that warps take turns at random. */
struct sim_delay {
    const char *operation; /* "bulk load", ...; "turns of the warps" */
    uint32_t cta[3];
    int32_t warp, lane; /* -1: none in particular */
    uint32_t ptx_line;  /* the instruction's; 0 for turns */
    const char *ptx, *source;
    uint32_t occurrence; /* from 1: counts the issues of the instruction by that warp */
    const char *until;   /* describes when its result was written */
};
struct sim_shrunk {
    bool found;                 /* the mode shows a finding to shrink */
    struct sim_finding finding; /* that finding; unset if the caller's `shows` decided */
    bool always;                /* it occurs without any delay */
    const struct sim_delay *delays;
    size_t count;
    size_t operations;   /* asynchronous operations of the launch when all are delayed */
    unsigned runs;       /* runs of the launch so far */
    bool least;          /* no delay can be left out; false: a limit ended the search */
    const char *stopped; /* that limit, else "" */
};
struct sim_shrink_options {
    const char *kind; /* NULL: the first finding that needs a delay, errors first */
    /* If set, replaces the finding: called after each run, tells whether results in memory show the fault. */
    int (*shows)(void *context);
    /* Called after each run; `left`: delays in the smallest set so far. */
    void (*progress)(void *context, unsigned runs, size_t left);
    void *context;
    unsigned most_runs;         /* 0: 1000 */
    unsigned most_operations;   /* further operations of a launch are not delayed; 0: 2^20 */
    uint64_t most_instructions; /* warp instructions in all runs; 0: 2^31, about a minute */
};
/* Searches for the smallest set of delays that shows a finding.  Runs the launch many times, each time on
 * memory as it is now, with fewer and fewer operations delayed as the mode says and the others at once;
 * clusters run in a fixed order, and all earlier launches are complete.  Leaves findings, counters and memory
 * unchanged.  NULL: sim_status and sim_message say why.  It lives until the next call or sim_destroy. */
SIM_API const struct sim_shrunk *sim_shrink(struct sim *sim, struct sim_module *module, const char *kernel,
                                            const struct sim_launch_attributes *attributes,
                                            const struct sim_shrink_options *options); /* NULL: defaults */
SIM_API const struct sim_shrunk *sim_last_shrunk(const struct sim *sim);               /* NULL: none */
SIM_API void sim_print_shrunk(const struct sim *sim,
                              FILE *to); /* prints a table, or nothing without a result */

/* Records a launch that the caller refuses; sim_launch records its own refusals. */
SIM_API void sim_refuse(struct sim *sim, const char *kernel, const char *why);
/* Sets mode and seed from a text as in SIM_MODES; false, with nothing changed, for any other text. */
SIM_API bool sim_read_mode(const char *text, struct sim_options *options);

/* Checks that the verdict does not include: the first always, the others only if some kernel could not be
 * judged. */
enum sim_unchecked { SIM_UNCHECKED_LANES, SIM_UNCHECKED_REGISTERS, SIM_UNCHECKED_CTAS, SIM_UNCHECKED };
SIM_API const char *sim_unchecked_name(int what); /* NULL past the end */
SIM_API bool sim_unchecked(const struct sim *sim, int what);

/* The worst finding's; incomplete for less than an error if CTAs were not checked. */
SIM_API enum sim_verdict sim_verdict(const struct sim *sim);
SIM_API size_t sim_finding_count(const struct sim *sim);
SIM_API const struct sim_finding *sim_finding(const struct sim *sim, size_t index);
/* The number of findings with a verdict, listed or not, and the number of all findings that are not listed: the
 * list holds 1000, and errors displace reviews. */
SIM_API uint64_t sim_finding_times(const struct sim *sim, enum sim_verdict verdict);
SIM_API uint64_t sim_findings_unlisted(const struct sim *sim);
/* True if a launch that ran had an error or was incomplete, listed or not.  A refused launch has not run. */
SIM_API bool sim_run_failed(const struct sim *sim);
SIM_API void sim_clear_findings(struct sim *sim);
/* While another thread's launch runs, its findings may be read and printed between true and false. */
SIM_API void sim_hold_findings(struct sim *sim, bool hold);

/* A rule that hides findings which the user has judged: from the list, the verdict and its counts.  Findings
 * that end a run, and what is not modelled, are never hidden. */
struct sim_suppression {
    const char *kind, *kernel, *place; /* as written; "*" for any */
    uint32_t line;                     /* in the text of the rules */
    uint64_t times;                    /* findings hidden; 0 after the runs means that the rule is stale */
};
/* Adds rules, one a line: KIND [KERNEL [PLACE]]; # starts a comment.  KERNEL is a pattern (fnmatch) for the
 * name in the PTX; PLACE is ptx:LINE, or a pattern for FILE:LINE of the source in any folder.  Returns 0, or -1
 * with the wrong line in `message`, in which case the rules before it are added. */
SIM_API int sim_suppress(struct sim *sim, const char *text, char *message, size_t room);
SIM_API size_t sim_suppression_count(const struct sim *sim);
SIM_API const struct sim_suppression *sim_suppression(const struct sim *sim, size_t index);
/* Prints findings from number `start` on, without groups that began before it. */
SIM_API void sim_print_findings(const struct sim *sim, size_t start, FILE *to);
SIM_API const char *sim_verdict_name(enum sim_verdict verdict);
/* A kernel's name as reports print it: with its namespaces and numeric template arguments. */
SIM_API const char *sim_short_name(const char *kernel, char *to, size_t room);

SIM_API const struct sim_counters *sim_counters(const struct sim *sim);
SIM_API const char *sim_class_name(int index); /* NULL past the end */

/* Simulated time, computed from the parameters of a chip (clock/chips): never a measurement. */
struct sim_time {
    const char *chip;
    const char *error; /* how far off the model was when compared with a card */
    double clock_ghz;
    double cycles, us;               /* from the first call to the end of all launches */
    double kernel_cycles, kernel_us; /* the last launch: from its first CTA's start to its last CTA's end */
};
/* False: no time is simulated. */
SIM_API bool sim_time(const struct sim *sim, struct sim_time *time);
/* Units of the chip that a launch keeps busy: of a sub-partition of an SM, of an SM, of the whole chip. */
enum sim_resource {
    SIM_ISSUE,
    SIM_ALU,
    SIM_FMA,
    SIM_SPECIAL,
    SIM_WARP_MMA,
    SIM_SHARED,
    SIM_TENSOR,
    SIM_LOAD_PORT,
    SIM_STORE_PORT,
    SIM_L2,
    SIM_HBM,
    SIM_RESOURCES
};
SIM_API const char *sim_resource_name(int resource); /* NULL past the end */
/* Steps of the longest chain of a launch, in which each wait is traced back to what ended it last. */
enum sim_step {
    SIM_STEP_START,
    SIM_STEP_BEFORE,
    SIM_STEP_LOADS,
    SIM_STEP_COPIES,
    SIM_STEP_PORT,
    SIM_STEP_L2,
    SIM_STEP_HBM,
    SIM_STEP_TENSOR,
    SIM_STEP_TMEM,
    SIM_STEP_REMOTE,
    SIM_STEP_STORES,
    SIM_STEP_BARRIERS,
    SIM_STEP_WARPS, /* instructions of warp 0 of a CTA; the other warps follow */
    SIM_STEPS = SIM_STEP_WARPS + 32
};
/* What a line of the chain took time for: a step before SIM_STEP_WARPS, or these. */
enum { SIM_COST_RESULT = SIM_STEP_WARPS, SIM_COST_TURN, SIM_COST_NEXT, SIM_COSTS, SIM_COSTLY = 6 };
SIM_API const char *sim_step_name(int step); /* NULL past the end */
SIM_API const char *sim_cost_name(int cost);
struct sim_costly_line {
    double share; /* of the chain, by a few hundred samples of it */
    uint32_t ptx_line;
    const char *ptx, *source; /* live as long as the simulator */
    int cost;
};
struct sim_timed_launch {
    const char *kernel;
    /* Fractions of the kernel's time, less the time in which a dependent launch overlaps the previous one: on
     * the average SM, and on the busiest. */
    double busy[SIM_RESOURCES];
    double busiest[SIM_RESOURCES];
    /* Indexed by the warp's place in its CTA, on average: cycles that it lived, and that it waited for barriers
     * of the CTA, mbarriers, the cluster barrier, and its own asynchronous operations.  In the rest it issued,
     * or waited for operands and pipes. */
    double lived[32], bar[32], mbarrier[32], cluster[32], own[32];
    /* Cycles of each step in the chain that ends last, from when the launch could begin. */
    double chain[SIM_STEPS];
    /* The PTX lines that took most of that chain, each with one cost, the largest first; share 0: no more. */
    struct sim_costly_line lines[SIM_COSTLY];
    double start_us, end_us; /* start of its first CTA and end of its last, since the first call */
};
/* Launch number `index`; false past the end, and past the listed ones (4096). */
SIM_API bool sim_timed_launch(const struct sim *sim, size_t index, struct sim_timed_launch *launch);
/* An interval of time in the first cluster of a launch, or a load of the chip's memory. */
struct sim_span {
    uint64_t launch;
    const char *kernel, *name;
    uint32_t sm;
    int cta;  /* rank in its cluster; -1: the whole chip */
    int warp; /* -1: not a warp but the unit `name` */
    double start_us, us;
    double share; /* for the chip's memory: the fraction of the span in which it was busy */
};
/* Span number `index`; false past the end.  At most 2^15 are kept; sim_spans_lost counts the others. */
SIM_API bool sim_span(const struct sim *sim, size_t index, struct sim_span *span);
SIM_API uint64_t sim_spans_lost(const struct sim *sim);
/* Prints all spans as a Chrome trace (Perfetto, chrome://tracing). */
SIM_API void sim_print_timeline(const struct sim *sim, FILE *to);
/* With simulated time: the host waits for the device, so its next call comes later. */
SIM_API void sim_synchronize(struct sim *sim);
SIM_API void sim_print_json(const struct sim *sim, FILE *to);
SIM_API void sim_print_counters(const struct sim *sim, FILE *to);
SIM_API void sim_print_times(const struct sim *sim, FILE *to); /* of each launch; nothing without a chip */
/* Prints stale suppressions, then the verdict in one line. */
SIM_API void sim_print_summary(const struct sim *sim, FILE *to);

/* ---- textures and surfaces ---- */

#define SIM_TEXTURE_MAGIC 0x7e57a11eu

enum sim_texture_kind { SIM_TEXTURE_SIGNED, SIM_TEXTURE_UNSIGNED, SIM_TEXTURE_FLOAT };
/* The values are those of the CUDA runtime API. */
enum sim_address_mode { SIM_ADDRESS_WRAP, SIM_ADDRESS_CLAMP, SIM_ADDRESS_MIRROR, SIM_ADDRESS_BORDER };

/* An object that kernels fetch from or store to: its address, in memory of the simulator, is the handle. */
struct sim_texture {
    uint32_t magic; /* SIM_TEXTURE_MAGIC */
    uint32_t dimensions, size[3], layers;
    const void *data;
    uint64_t pitch, slice_pitch; /* bytes from row to row, from slice or layer to the next */
    uint32_t channels, channel_bits, kind;
    uint32_t address_mode[3];
    float border[4];
    bool is_surface;
    bool linear_memory; /* one-dimensional, without filtering; zeros outside */
    bool filter_linear, normalized, read_normalized;
};

/* ---- tensor maps (the rules of cuTensorMapEncodeTiled, ...Im2col and ...Im2colWide; the values are those of
 * the CUDA driver API) ---- */

#define SIM_TENSOR_MAP_BYTES 128

enum sim_tensor_mode { SIM_TENSOR_TILED, SIM_TENSOR_IM2COL, SIM_TENSOR_IM2COL_W };

struct sim_tensor_map {
    uint32_t data_type; /* CUtensorMapDataType */
    uint32_t rank;
    const void *address;
    uint64_t sizes[5];
    uint64_t strides[5]; /* in bytes; strides[i] belongs to dimension i + 1 */
    uint32_t box[5];
    uint32_t element_strides[5];
    uint32_t interleave, swizzle, l2_promotion, oob_fill;
    uint32_t mode; /* enum sim_tensor_mode */
    /* For the im2col modes, in which box[0] is channelsPerPixel: the corners of the bounding box by dimension,
     * from W (dimension 1) on, and pixelsPerColumn. */
    int32_t lower[3], upper[3];
    uint32_t pixels;
};

/* Encodes `map` into 128 bytes; returns 0, or -1 with the broken rule in `message`. */
SIM_API int sim_encode_tensor_map(void *encoded, const struct sim_tensor_map *map, char *message,
                                  size_t message_bytes);

/* Replaces the address in an encoded map; returns 0, or -1 with the reason in `message`. */
SIM_API int sim_replace_tensor_map_address(void *encoded, const void *address, char *message,
                                           size_t message_bytes);

#ifdef __cplusplus
}
#endif

#endif
