/* A PTX virtual machine for sm_90a and sm_100a kernels: the library's interface.
 *
 *     struct sim *sim = sim_create(&options);
 *     struct sim_module *module = sim_load(sim, text, bytes);
 *     void *buffer = sim_alloc(sim, bytes, "weights");
 *     sim_launch(sim, module, "kernel", &launch);
 *     sim_verdict(sim); sim_finding(sim, i);
 *
 * A device address is a host address: what sim_alloc returns may be read and written by the host between
 * launches, and sim_register makes memory of the caller's known to kernels.  A kernel's access outside the
 * registered ranges is an error.  A launch has run when sim_launch returns.  Not thread-safe: one thread a sim.
 */
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
    SIM_POISON,  /* as late, and a destination is a trap pattern from issue on */
};

enum sim_verdict {
    SIM_CLEAN,
    SIM_REVIEW, /* not guaranteed by PTX, yet common practice relies on it */
    SIM_ERROR,
    SIM_INCOMPLETE, /* something the simulator does not model; never a success */
};

enum sim_status {
    SIM_OK,
    SIM_BAD_ARGUMENT,
    SIM_BAD_PTX,
    SIM_NO_MEMORY, /* the heap is exhausted; a run that meets this ends so, whatever it was doing */
    SIM_NO_KERNEL,
    SIM_RUN_ERROR, /* the launch ended with an error finding; the other failures have one too: launch-refused */
};

struct sim_options {
    enum sim_mode mode;
    uint64_t seed;
    int threads;               /* 0: one for each core */
    int no_checks;             /* no happens-before checks: execution only */
    unsigned sms;              /* what %nsmid and the occupancy of the CUDA runtime shim say; 0: 132 or 148 */
    uint64_t max_instructions; /* of a warp in a launch; 0: 2^32, about a minute of one */
    const char *chip;          /* simulate time on it: h200, b200, or a chip's file; NULL: no time */
    int no_values; /* MMAs leave their results as they are: for time, where nothing depends on them */
    int timeline;  /* keep what sim_span tells; only with a chip */
    /* A folder that says what ptxas made of a module (scripts/common/machine_code), and where the module's text
     * is left if it does not; only with a chip.  NULL: time goes by PTX. */
    const char *machine_code;
};

struct sim_finding {
    enum sim_verdict verdict;
    const char *kind;    /* stable name, e.g. "read-before-completion" */
    const char *message; /* one sentence on the cause */
    const char *kernel;
    uint32_t cta[3];
    int32_t warp, lane; /* -1: none in particular */
    int64_t offset; /* of a byte that it is about: in the allocation, or in the CTA's shared memory; -1: none */
    const char *allocation; /* of global memory, by its name; "": shared memory */
    uint32_t ptx_line;
    const char *ptx;         /* the instruction as the PTX has it, "" if not known */
    const char *source;      /* "file:line", "" if not known */
    uint32_t other_ptx_line; /* of the other access, 0 without */
    const char *other_ptx, *other_source;
    uint64_t times;  /* how often it was found */
    uint32_t launch; /* from 1 in the order of submission, copies included; 0: it never ran */
    /* Of the other access, where it is another launch's: 0 and "" else.  A copy has a name and no lines. */
    uint32_t other_launch;
    const char *other_kernel;
};

struct sim_launch_attributes {
    uint32_t grid[3], block[3], cluster[3]; /* cluster 0: as the kernel says, else 1 */
    uint32_t dynamic_shared_bytes;
    int programmatic_dependent; /* may start before the previous launch is complete */
    int cooperative;            /* all CTAs run at once: there is a workspace for grid-wide barriers */
    void *const *arguments;     /* one pointer a parameter, as cudaLaunchKernel takes them */
    size_t argument_count;
};

/* Counters since sim_create. */
struct sim_counters {
    uint64_t launches, ctas;
    uint64_t instructions;    /* of warps */
    uint64_t by_class[16];    /* sim_class_name */
    uint64_t by_warp[32][16]; /* the same by a warp's place in its CTA */
    uint64_t tma_load_bytes, tma_store_bytes;
    uint64_t global_load_bytes, global_store_bytes, shared_load_bytes, shared_store_bytes;
    uint64_t global_load_sectors, global_store_sectors;  /* 32 bytes each */
    uint64_t shared_wavefronts, shared_ideal_wavefronts; /* the difference: bank conflicts */
    uint64_t tensor_instructions, tensor_macs;
    uint64_t tensor_cycles; /* of an SM's tensor cores at the published rate */
    uint64_t barrier_waits, barrier_waits_blocked;
    uint64_t async_operations;
    double seconds; /* of the host */
};

struct sim;
struct sim_module;

SIM_API struct sim *sim_create(const struct sim_options *options); /* NULL: defaults */
SIM_API void sim_destroy(struct sim *sim);
/* What the last failed call says, as a status and as a sentence. */
SIM_API enum sim_status sim_status(const struct sim *sim);
SIM_API const char *sim_message(const struct sim *sim);

SIM_API struct sim_module *sim_load(struct sim *sim, const char *ptx,
                                    size_t bytes); /* NULL: sim_message says why */
/* Address and size of a module's global variable. */
SIM_API void *sim_global(struct sim_module *module, const char *name, size_t *bytes);
SIM_API const char *sim_kernel_name(const struct sim_module *module, size_t index); /* NULL past the end */
/* Why a kernel's own body cannot be read, "line N: ...": its launches are refused with that, the module's other
 * kernels run.  NULL: it can, or there is no such kernel. */
SIM_API const char *sim_unreadable(const struct sim_module *module, const char *kernel);
SIM_API int sim_parameter_count(const struct sim_module *module, const char *kernel); /* -1: no such kernel */
SIM_API size_t sim_parameter_bytes(const struct sim_module *module, const char *kernel, int index);
SIM_API size_t sim_parameter_offset(const struct sim_module *module, const char *kernel, int index);

SIM_API void *sim_alloc(struct sim *sim, size_t bytes,
                        const char *name); /* 256-byte aligned, filled with a trap pattern */
SIM_API int sim_free(struct sim *sim, void *address);
/* In the selected queue: memory freed in it may be given again to what follows there. */
SIM_API void *sim_alloc_in_queue(struct sim *sim, size_t bytes, const char *name);
SIM_API int sim_free_in_queue(struct sim *sim, void *address);
SIM_API int sim_register(struct sim *sim, void *address, size_t bytes, const char *name);
SIM_API int sim_unregister(struct sim *sim, void *address);
SIM_API bool sim_has(const struct sim *sim, const void *address, size_t bytes); /* all in one allocation */
SIM_API int sim_write(struct sim *sim, void *to, const void *from, size_t bytes);
SIM_API int sim_read(struct sim *sim, void *to, const void *from, size_t bytes);
SIM_API int sim_fill(struct sim *sim, void *to, int value, size_t bytes); /* memset */
/* Between any two addresses: what belongs to no allocation is the host's. */
SIM_API int sim_copy(struct sim *sim, void *to, const void *from, size_t bytes);

/* ---- order (CUDA streams, here queues; events; what the host waits for) ----
 *
 * Launches and copies run when they are called.  What the checks take them to be ordered after is what a card
 * would have to wait for: all of the same queue, but of a launch with programmatic_dependent only as much as
 * griddepcontrol says; of other queues by events, by the host's waits, and by the legacy default queue, which
 * is number 0. */
SIM_API unsigned sim_queue_create(struct sim *sim, int blocking); /* 0: no memory */
SIM_API void sim_queue_destroy(struct sim *sim, unsigned queue);
SIM_API void sim_queue_select(struct sim *sim, unsigned queue); /* of launches and copies from now on */
SIM_API int sim_queue_synchronize(struct sim *sim, unsigned queue);
SIM_API int sim_queues_synchronize(struct sim *sim);
struct sim_event;
SIM_API struct sim_event *sim_event_record(struct sim *sim, unsigned queue); /* NULL: no memory */
SIM_API int sim_queue_wait(struct sim *sim, unsigned queue, const struct sim_event *event);
SIM_API int sim_event_synchronize(struct sim *sim, const struct sim_event *event);
SIM_API void sim_event_free(struct sim_event *event);

SIM_API int sim_launch(struct sim *sim, struct sim_module *module, const char *kernel,
                       const struct sim_launch_attributes *attributes);
/* ---- the smallest set of delays that shows a finding ---- */

/* An asynchronous operation that takes effect late, or, in mode random, that warps take turns at random. */
struct sim_delay {
    const char *operation; /* "bulk load", ...; "turns of the warps" */
    uint32_t cta[3];
    int32_t warp, lane; /* -1: none in particular */
    uint32_t ptx_line;  /* of the instruction, 0 for turns */
    const char *ptx, *source;
    uint32_t occurrence; /* from 1: how often that warp had issued the instruction */
    const char *until;   /* when its result was written */
};
struct sim_shrunk {
    bool found;                 /* whether the mode shows a finding to shrink at all */
    struct sim_finding finding; /* that finding; unset where the caller's own `shows` decided */
    bool always;                /* it is there with no delay at all */
    const struct sim_delay *delays;
    size_t count;
    size_t operations;   /* that the launch issued with all delays */
    unsigned runs;       /* of the launch */
    bool least;          /* not a single delay can be left out; false: a bound came first */
    const char *stopped; /* which bound, "" without */
};
struct sim_shrink_options {
    const char
        *kind; /* of the finding; NULL: the first that the mode shows and no delay does not, errors first */
    /* Whether the launch's results show the fault, in the place of a finding: called after each run, when
     * memory is as the run left it. */
    int (*shows)(void *context);
    /* After each run; `left`: delays in the smallest set so far. */
    void (*progress)(void *context, unsigned runs, size_t left);
    void *context;
    unsigned most_runs;         /* 0: 1000 */
    unsigned most_operations;   /* of a launch: those beyond are not delayed; 0: 2^20 */
    uint64_t most_instructions; /* of warps, in all runs; 0: 2^31, about a minute */
};
/* Runs a launch again and again on memory as it is now, always put back, with fewer and fewer operations
 * delayed as the mode says and the others at once; clusters run in a fixed order, and all earlier launches are
 * complete. The sim has no finding, counter or memory changed by it.  NULL: sim_status and sim_message say why.
 * What is returned lives until the next call or sim_destroy. */
SIM_API const struct sim_shrunk *sim_shrink(struct sim *sim, struct sim_module *module, const char *kernel,
                                            const struct sim_launch_attributes *attributes,
                                            const struct sim_shrink_options *options); /* NULL: defaults */
SIM_API const struct sim_shrunk *sim_last_shrunk(const struct sim *sim);               /* NULL: none */
SIM_API void sim_print_shrunk(const struct sim *sim, FILE *to); /* a table; nothing where nothing was shrunk */

/* What the caller itself refuses to launch; sim_launch notes its own refusals. */
SIM_API void sim_refuse(struct sim *sim, const char *kernel, const char *why);
/* A mode by its name, one of SIM_MODES; false, and nothing changed, for any other text. */
SIM_API bool sim_read_mode(const char *text, struct sim_options *options);

/* What no verdict speaks of: the first always, others where a kernel gave no way to judge them. */
enum sim_unchecked { SIM_UNCHECKED_LANES, SIM_UNCHECKED_REGISTERS, SIM_UNCHECKED };
SIM_API const char *sim_unchecked_name(int what); /* NULL past the end */
SIM_API bool sim_unchecked(const struct sim *sim, int what);

SIM_API enum sim_verdict sim_verdict(const struct sim *sim); /* the worst finding's */
SIM_API size_t sim_finding_count(const struct sim *sim);
SIM_API const struct sim_finding *sim_finding(const struct sim *sim, size_t index);
/* How often a verdict was found in all, listed or not; how many of all were not listed: the list has 1000
 * places, and errors take those of reviews. */
SIM_API uint64_t sim_finding_times(const struct sim *sim, enum sim_verdict verdict);
SIM_API uint64_t sim_findings_unlisted(const struct sim *sim);
/* Whether a launch that ran had an error or was incomplete, listed or not; a launch that was refused has not
 * run. */
SIM_API bool sim_run_failed(const struct sim *sim);
SIM_API void sim_clear_findings(struct sim *sim);

/* A finding that the user has judged: hidden from the list, the verdict and the counts of verdicts, and counted
 * here.  What ends a run and what is not modelled is never hidden. */
struct sim_suppression {
    const char *kind, *kernel, *place; /* as written, "*" for any */
    uint32_t line;                     /* of the rules' text */
    uint64_t times;                    /* 0 after the runs: it is stale */
};
/* Adds rules, one a line: KIND [KERNEL [PLACE]], # begins a comment.  KERNEL is a pattern (fnmatch) for the
 * name in the PTX; PLACE is ptx:LINE, or a pattern for FILE:LINE of the source in whatever folder.  0, or -1
 * with the line that is wrong in `message`: rules before it hold. */
SIM_API int sim_suppress(struct sim *sim, const char *text, char *message, size_t room);
SIM_API size_t sim_suppression_count(const struct sim *sim);
SIM_API const struct sim_suppression *sim_suppression(const struct sim *sim, size_t index);
/* From finding number `start` on: groups that began before are not told again. */
SIM_API void sim_print_findings(const struct sim *sim, size_t start, FILE *to);
SIM_API const char *sim_verdict_name(enum sim_verdict verdict);

SIM_API const struct sim_counters *sim_counters(const struct sim *sim);
SIM_API const char *sim_class_name(int index); /* NULL past the end */

/* Simulated time, from one figure a parameter of a chip (clock/chips): never a measurement. */
struct sim_time {
    const char *chip;
    const char *error; /* how far off the model was where it was compared with a card */
    double clock_ghz;
    double cycles, us;               /* from the first call to the end of all that was launched */
    double kernel_cycles, kernel_us; /* of the last launch: from its first CTA's start to its last one's end */
};
/* False: no time is simulated. */
SIM_API bool sim_time(const struct sim *sim, struct sim_time *time);
/* What a launch takes of the chip: of an SM's sub-partitions, of the SM, of all of them. */
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
/* What the longest chain of a launch consists of: each wait is followed back to what ended it last. */
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
    SIM_STEP_WARPS, /* instructions: of warp 0 of a CTA, and those of the others behind it */
    SIM_STEPS = SIM_STEP_WARPS + 32
};
SIM_API const char *sim_step_name(int step); /* NULL past the end */
struct sim_timed_launch {
    const char *kernel;
    /* Fractions of the kernel's time, less what a dependent launch spends beside the one before: on the average
     * SM, and on the SM where it is most. */
    double busy[SIM_RESOURCES];
    double busiest[SIM_RESOURCES];
    /* Cycles that the average warp of each place in its CTA lived, and waited for: barriers of the CTA,
     * mbarriers, the cluster's barrier, its own asynchronous operations; what is left it issued, or waited for
     * operands and pipes. */
    double lived[32], bar[32], mbarrier[32], cluster[32], own[32];
    /* Cycles of the chain that ends last, from when the launch could begin on. */
    double chain[SIM_STEPS];
    double start_us, end_us; /* its first CTA's start and its last one's end, since the first call */
};
/* Of launch number `index`; false past the end, and past what is listed (4096). */
SIM_API bool sim_timed_launch(const struct sim *sim, size_t index, struct sim_timed_launch *launch);
/* Something that took time in the first cluster of a launch, or a share of the chip's memory. */
struct sim_span {
    uint64_t launch;
    const char *kernel, *name;
    uint32_t sm;
    int cta;  /* rank in its cluster; -1: of the chip */
    int warp; /* -1: the name is that of a unit beside the warps */
    double start_us, us;
    double share; /* of the chip's memory: how much of the span it was taken */
};
/* Number `index`; false past the end.  At most 2^15 are kept; *lost: how many were not. */
SIM_API bool sim_span(const struct sim *sim, size_t index, struct sim_span *span);
SIM_API uint64_t sim_spans_lost(const struct sim *sim);
/* All of them as a Chrome trace (Perfetto, chrome://tracing). */
SIM_API void sim_print_timeline(const struct sim *sim, FILE *to);
/* The host waits for the device: what it calls next comes after that. */
SIM_API void sim_synchronize(struct sim *sim);
SIM_API void sim_print_json(const struct sim *sim, FILE *to);
SIM_API void sim_print_counters(const struct sim *sim, FILE *to);
/* Rules that hid nothing, then one line: the verdict. */
SIM_API void sim_print_summary(const struct sim *sim, FILE *to);

/* ---- tensor maps (the rules of cuTensorMapEncodeTiled, ...Im2col and ...Im2colWide; the values are those of
 * the CUDA driver API) ---- */

#define SIM_TENSOR_MAP_BYTES 128

enum sim_tensor_mode { SIM_TENSOR_TILED, SIM_TENSOR_IM2COL, SIM_TENSOR_IM2COL_W };

struct sim_tensor_map {
    uint32_t data_type; /* CUtensorMapDataType */
    uint32_t rank;
    const void *address;
    uint64_t sizes[5];
    uint64_t strides[5]; /* bytes; strides[i] belongs to dimension i + 1 */
    uint32_t box[5];
    uint32_t element_strides[5];
    uint32_t interleave, swizzle, l2_promotion, oob_fill;
    uint32_t mode; /* enum sim_tensor_mode */
    /* The im2col modes alone, where box[0] is channelsPerPixel: the bounding box's corners by dimension, from W
     * (dimension 1) on, and pixelsPerColumn. */
    int32_t lower[3], upper[3];
    uint32_t pixels;
};

/* Encodes `map` into 128 bytes; 0, or -1 with the broken rule in message. */
SIM_API int sim_encode_tensor_map(void *encoded, const struct sim_tensor_map *map, char *message,
                                  size_t message_bytes);

/* Another address for an encoded map; -1 with why in message. */
SIM_API int sim_replace_tensor_map_address(void *encoded, const void *address, char *message,
                                           size_t message_bytes);

#ifdef __cplusplus
}
#endif

#endif
