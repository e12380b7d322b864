/* Simulated time: what an instruction, a copy, a barrier and a launch cost on a chip.
 *
 * The layers above report what happens and when it began.  The clock books it on the chip's resources and
 * answers with a time.  It knows nothing of values.  Without sim_options.chip there is no clock and
 * launch->timing is NULL. A timed launch runs on one host thread.  SMs advance in windows of time; what they
 * ask of L2 and HBM in a window is served at its end in the order of time, so the order in which the host runs
 * the SMs makes no difference. */
#ifndef SIM_CLOCK_TIMING_H
#define SIM_CLOCK_TIMING_H

#include "clock_state.h"

/* ---- set-up (clock_state.c) ---- */

/* machine_code: sim_options' folder, or NULL.  Returns NULL with a `message` on failure. */
struct timing *timing_make(const char *chip, const char *machine_code, char *message, size_t room);
void timing_free(struct timing *timing);
void warp_time_make(struct warp *warp, struct worker *worker);
void warp_time_start(struct warp *warp, ticks at);
void warp_time_free(struct warp *warp);

/* ---- instructions (instructions/) ---- */

/* Gives each instruction its family.  False with a `message`, which is empty if memory is exhausted. */
bool timing_classify(struct module *module, const struct timing *timing, char *message, size_t room);
/* assembler.c: models what ptxas does with a function's instructions together.  False: no memory. */
bool timing_assemble(struct module *module, const struct function *function);
/* Returns when the split's next instruction can issue, as far as known; NEVER: it needs an answer of memory. */
ticks time_ready(const struct warp *warp, const struct split *split);
/* Returns when the next instruction's operands are there; arithmetic may take its issue slot before. */
ticks time_operands(const struct warp *warp, const struct split *split);
/* Called before and after an instruction is executed, at a time that time_ready gave. */
void time_issue(struct run *run, const struct insn *insn);
void time_executed(struct run *run, const struct insn *insn, enum next next);
/* True if the split's next instruction stores to global memory. */
bool time_stores(const struct warp *warp, const struct split *split);
/* True if the guard of an instruction leaves all lanes out; it then takes its issue slot and nothing else. */
bool time_left_out(const struct warp *warp, const struct split *split, const struct insn *insn);
void time_skipped(struct run *run, const struct insn *insn);
/* The running instruction arrives at an mbarrier of `to`. */
void time_arrival(struct run *run, const struct cta *to);
/* The value of a clock register for the running warp. */
uint64_t time_clock_register(const struct timing *timing, unsigned kind);
/* Returns when a waiting warp continues that was signalled at `at`. */
ticks time_wake(struct timing *timing, struct warp *warp, ticks at);

/* How long an mma or wmma.mma keeps a sub-partition's tensor core (tensor/warp_mma_time.c). */
uint32_t warp_mma_ticks(const struct chip *chip, const char *name);

/* ---- launches that overlap (overlap.c) ---- */

/* Books `length` of a shared resource beside earlier launches; returns when it ends. */
ticks time_shared(const struct timing *timing, struct shared_resource *resource, ticks at, ticks length);
/* Books `bytes` at a rate on a shared resource; returns how long they wait for their turn. */
ticks time_queued(const struct timing *timing, struct shared_resource *resource, ticks at, uint64_t rate,
                  uint64_t bytes);
/* Extra HBM latency at `at` because of its recent load. */
ticks time_loaded(const struct timing *timing, ticks at);
/* Books `length` of an SM's share; returns how long it takes beside earlier launches. */
ticks time_beside(const struct timing *timing, struct sm_time *sm, unsigned share, ticks at, ticks length);

/* ---- L2 (l2.c) ---- */

/* An address as the caches see it: the same in every run, wherever the host put the memory. */
uint64_t time_placed(struct timing *timing, uint64_t address);
/* Touches the lines of a range in L2; returns the bytes that missed.  *filled is raised to when the last line
 * that is on its way is there. */
uint64_t time_touch(struct timing *timing, uint64_t address, uint64_t bytes, bool store, ticks *filled);
/* time_touch for a row of a box or a lane's copy, where L2 takes blocks of `block` bytes from HBM. */
uint64_t time_touch_row(struct timing *timing, uint64_t address, uint64_t bytes, uint64_t block, ticks *filled);
/* time_touch for a sector by its place; TOUCH_AHEAD: a prefetch of its line. */
enum touch { TOUCH_LOAD, TOUCH_STORE, TOUCH_AHEAD };
uint64_t time_touch_sector(struct timing *timing, uint64_t place, enum touch how, uint64_t block,
                           ticks *filled);
/* Prefetches the lines of a range to L2; returns the bytes taken from HBM. */
uint64_t time_touch_ahead(struct timing *timing, uint64_t address, uint64_t bytes);
/* The block size that an instruction's name asks for (L2::128B, L2::256B). */
uint64_t time_fetched(const char *name);
/* Extra time of a load whose lines are scattered. */
ticks time_rows(const struct timing *timing, const uint64_t *lines, uint32_t count, bool far);
/* The host has written a range: as much of it as fits is in L2, and displaces what was there. */
void time_filled(struct timing *timing, uint64_t address, uint64_t bytes);

/* ---- memory (memory_path.c, turns.c) ---- */

/* Sets near and far of the window's loads: how long each waits for L2 and HBM. */
void time_turns(struct timing *timing);
struct request *time_request(struct timing *timing);
/* Returns when L2 has taken the SM's stores up to `at`, as far as they have been served. */
ticks time_stores_taken(const struct sm_time *sm, ticks at);
/* Serves the window's requests in the order of time. */
void time_settle(struct timing *timing);
/* Books the running instruction's global loads, stores or prefetches. */
void time_global(struct run *run, const struct insn *insn);
/* Books a warp's cp.async; returns when it has had its turn on the SM's path to memory. */
ticks time_async_copy(struct run *run, const struct insn *insn, const uint64_t *from, uint32_t mask);

/* ---- words that CTAs share (instructions/fences.c) ---- */

/* True for a releasing store or atomic; starts the fence before it, which delays the instruction. */
bool time_word(const struct warp *warp, const struct split *split, ticks ready);

/* ---- events (events.c) ---- */

void event_put(struct timing *timing, struct agenda *agenda, struct event event);
struct event event_take(struct agenda *agenda); /* the earliest */
ticks event_next(const struct agenda *agenda);  /* when that is; NEVER: none */
/* event_put behind the events of the same time. */
void event_add(struct timing *timing, struct island *island, struct event event);
struct island *island_of(const struct timing *timing, const struct cta *cta);
/* The operation reaches `stage` at `at`. */
void event_add_stage(struct timing *timing, struct async_op *op, const struct cta *cta, ticks at,
                     uint8_t stage);

/* ---- the copy engine, the cluster network, TMEM (copy_engine.c, tensor/tcgen05_time.c) ---- */

/* Starts a copy of the running instruction; returns when its first byte is asked for.  of_memory: false for
 * copies between CTAs, which no fence waits for (measured, H200: remote_copy_bytes_a_cycle). */
ticks time_copy_start(struct run *run, bool of_memory);
/* m, n: of the whole MMA; scaled: with block scale factors. */
struct tcgen05_shape {
    uint32_t m, n;
    bool a_in_tmem, pair, scaled;
};
ticks time_tcgen05_mma(struct run *run, const struct tcgen05_shape *shape);
ticks time_tcgen05_copy(struct run *run);
ticks time_tcgen05_access(struct run *run, uint32_t bytes); /* tcgen05.ld, st: bytes of the warp */
ticks time_remote(struct run *run, uint64_t bytes);
ticks time_engine_read(struct run *run, ticks start, uint64_t bytes);

/* ---- launches (launches.c, cta_places.c) ---- */

/* False: no memory. */
bool time_launch_begin(struct launch *launch);
/* cta_places.c: divides the SMs into islands of as many SMs as a cluster has CTAs.  False: no memory. */
bool time_islands(struct launch *launch, uint32_t ctas);
/* cta_places.c: clusters of this launch that fit an island at once. */
uint32_t time_room(const struct launch *launch);
/* Registers of a CTA; 0 if not known. */
uint32_t time_cta_registers(const struct launch *launch);
/* Finds a place for the next cluster: its island and when its warps start.  False: none is free before
 * `before`. */
bool time_place(struct launch *launch, ticks before, uint32_t *island, ticks *start);
void time_cluster_end(struct launch *launch, struct cluster *cluster, ticks at);
void time_launch_end(struct launch *launch);
void time_warp_end(struct warp *warp, ticks at);
/* The running CTA executed griddepcontrol.launch_dependents. */
void time_triggered(struct run *run);
/* The host has waited for the device. */
void time_host_waits(struct timing *timing);

#endif
