/* Strong accesses and fences: each flag in memory has a clock that carries what was released there to those who
 * acquire it. */
#include <stdlib.h>

#include "hazard.h"
#include "ptx/dependence.h"
#include "releases.h"

#define FLAG_CLOCK_BYTES ((size_t)64 << 20) /* limit for the clocks of all flags of a cluster */
#define FIRST_FLAGS      64
#define MOST_FLAGS       (1u << 16)
#define SC_FENCES        4 /* fence.sc remembered for each warp */
#define NOTICES          8 /* relaxed signals of other clusters remembered for each warp */

/* The fence.sc of a warp.  Two fence.sc are in one order whatever carries it from the first thread to the
 * second: other threads and relaxed flags too (PTX ISA, memory consistency model: Fence-SC order). */
struct sc_fences {
    /* A ring of the last ones: what each covers, and the warp's time at it. */
    struct vector_clock *covered[SC_FENCES];
    uint32_t time[SC_FENCES], next;
    uint32_t noticed; /* the warp's time when it last saw a relaxed signal */
    bool narrow;      /* its last releasing fence has scope .cta */
    /* A ring of the last relaxed signals behind fences of other clusters that the warp has seen: its time then,
     * the notes that it knew then (releases.h), and the access.  waits: whether `asked` waits for its value. */
    struct notice {
        uint32_t time, heard;
        const struct insn *insn, *asked;
        bool waits;
    } notice[NOTICES];
    uint32_t notices;
};

/* Flags in memory that strong accesses of this cluster use: a hash table by address. */
struct sync_table {
    struct sync_entry {
        uint64_t address;
        struct vector_clock *clock; /* NULL: free */
        /* Bit masks of CTAs by rank: those that have released here, those that did so with scope .cta. */
        uint32_t released, narrow;
        const struct insn *last; /* the last release */
    } *entry;
    uint32_t count, room; /* room: a power of two, more than half of it free */
    bool lost;            /* the cluster uses more flags than the table may hold */
    struct vector_clock *relaxed;
    /* Indexed by warp of the cluster, NULL for none.  fenced: what its releasing fences cover.  noticed: what
     * it saw through relaxed signals and acquires with its next acquiring fence. */
    struct vector_clock **fenced, **noticed;
    struct sc_fences *sc; /* by warp of the cluster; NULL until one executes a fence.sc */
};

void locations_reset(struct cluster *cluster) {
    struct sync_table *table = cluster->sync;
    if (table == NULL) {
        return;
    }
    if (table->count > 0) {
        memset(table->entry, 0, table->room * sizeof *table->entry);
    }
    table->count = 0;
    table->lost = false;
    table->relaxed = NULL;
    for (uint32_t i = 0; table->fenced != NULL && i < 2 * all_warps(cluster); i++) {
        table->fenced[i] = NULL; /* `noticed` follows in the same block */
    }
    if (table->sc != NULL) {
        memset(table->sc, 0, all_warps(cluster) * sizeof *table->sc);
    }
}

void locations_free(struct sync_table *table) {
    if (table != NULL) {
        free(table->entry);
        free(table->fenced);
        free(table->sc);
    }
    free(table);
}

static struct sync_table *sync_table(struct cluster *cluster) {
    if (cluster->sync == NULL) {
        cluster->sync = run_take(cluster->worker, 1, sizeof *cluster->sync);
    }
    return cluster->sync;
}

static struct sync_entry *entry_of(const struct sync_table *table, uint64_t address) {
    const uint64_t golden = 0x9e3779b97f4a7c15u; /* Knuth's multiplicative hash */
    uint32_t at = (uint32_t)(address * golden >> 32) & (table->room - 1);
    while (table->entry[at].clock != NULL && table->entry[at].address != address) {
        at = (at + 1) & (table->room - 1);
    }
    return &table->entry[at];
}

static void grow_table(struct cluster *cluster, struct sync_table *table) {
    struct sync_table grown = *table;
    grown.room = table->room == 0 ? 2 * FIRST_FLAGS : 2 * table->room;
    grown.entry = run_take(cluster->worker, grown.room, sizeof *grown.entry);
    for (uint32_t i = 0; i < table->room; i++) {
        if (table->entry[i].clock != NULL) {
            *entry_of(&grown, table->entry[i].address) = table->entry[i];
        }
    }
    free(table->entry);
    *table = grown;
}

/* The number of flags that fit in FLAG_CLOCK_BYTES; a clock grows with the warps of a cluster. */
static uint32_t most_flags(const struct cluster *cluster) {
    size_t most = FLAG_CLOCK_BYTES / vclock_bytes(cluster);
    return most > MOST_FLAGS ? MOST_FLAGS : most < FIRST_FLAGS ? FIRST_FLAGS : (uint32_t)most;
}

bool flags_lost(const struct cluster *cluster) {
    return cluster->sync != NULL && cluster->sync->lost;
}

/* The clock of a flag; NULL if there are too many flags, so that what this one orders is not known. */
static struct vector_clock *location(struct cluster *cluster, uint64_t address) {
    struct sync_table *table = sync_table(cluster);
    if (2 * table->count >= table->room) {
        grow_table(cluster, table);
    }
    struct sync_entry *entry = entry_of(table, address);
    if (entry->clock == NULL && table->count == most_flags(cluster)) {
        table->lost = true;
        return NULL;
    }
    if (entry->clock == NULL) {
        entry->clock = vclock_make(cluster);
        entry->address = address;
        table->count++;
    }
    return entry->clock;
}

static struct vector_clock **warp_fence_clock(struct run *run, bool noticed) {
    struct sync_table *table = sync_table(run->cluster);
    if (table->fenced == NULL) {
        table->fenced = run_take(run->worker, 2 * all_warps(run->cluster), sizeof *table->fenced);
        table->noticed = table->fenced + all_warps(run->cluster);
    }
    return &(noticed ? table->noticed : table->fenced)[run->warp->number];
}

/* Joins into `to` (which may be NULL) what each fence.sc covers that precedes the running warp's next access.
 * False if there is no such fence. */
static bool join_sc_fences(const struct run *run, struct vector_clock *to) {
    const struct sc_fences *sc = run->cluster->sync == NULL ? NULL : run->cluster->sync->sc;
    bool any = false;
    for (uint32_t i = 0; sc != NULL && i < all_warps(run->cluster); i++) {
        for (uint32_t j = 0; j < SC_FENCES && sc[i].covered[j] != NULL; j++) {
            bool before = run->warp->clock->acquired[i] > sc[i].time[j];
            any |= before;
            if (before && to != NULL) {
                vclock_join(run->cluster, to, sc[i].covered[j]);
            }
        }
    }
    return any;
}

static struct sc_fences *sc_of_warp(struct run *run) {
    struct sync_table *table = sync_table(run->cluster);
    if (table->sc == NULL) {
        table->sc = run_take(run->worker, all_warps(run->cluster), sizeof *table->sc);
    }
    return &table->sc[run->warp->number];
}

static void note_signal(struct run *run) {
    sc_of_warp(run)->noticed = run->warp->clock->acquired[run->warp->number];
}

void vclock_fence_sc(struct run *run) {
    if (!run->cluster->checks) {
        return;
    }
    struct sc_fences *sc = sc_of_warp(run);
    const struct sync_table *table = run->cluster->sync;
    const uint32_t own = run->warp->number, warps = table->noticed == NULL ? 0 : all_warps(run->cluster);
    for (uint32_t i = 0; i < warps; i++) { /* acquire what other warps had seen before this fence */
        if (i != own && table->noticed[i] != NULL && table->sc[i].noticed != 0 &&
            run->warp->clock->acquired[i] >= table->sc[i].noticed) {
            vclock_observe(run, table->noticed[i]);
        }
    }
    struct vector_clock **covered = &sc->covered[sc->next % SC_FENCES];
    *covered = *covered == NULL ? vclock_make(run->cluster) : *covered;
    vclock_clear(run->cluster, *covered);
    sc->time[sc->next++ % SC_FENCES] = run->warp->clock->acquired[own];
    vclock_publish(run, *covered);
}

void vclock_fence(struct run *run, bool acquires, bool releases, bool narrow) {
    if (!run->cluster->checks) {
        return;
    }
    if (releases && (narrow || (run->cluster->sync != NULL && run->cluster->sync->sc != NULL))) {
        sc_of_warp(run)->narrow = narrow;
    }
    run->warp->settled |= FENCED;
    struct vector_clock **noticed = warp_fence_clock(run, true), **fenced = warp_fence_clock(run, false);
    if (acquires && *noticed != NULL) {
        vclock_observe(run, *noticed);
    }
    if (releases) {
        *fenced = *fenced == NULL ? vclock_make(run->cluster) : *fenced;
        run->warp->fenced_time = run->warp->clock->acquired[run->warp->number];
        vclock_publish(run, *fenced); /* joins: a fence also covers what earlier fences of the warp covered */
    }
}

/* Clock published by the running warp's release fences, or NULL. */
static const struct vector_clock *vclock_fenced(const struct run *run) {
    const struct sync_table *table = run->cluster->sync;
    return table == NULL || table->fenced == NULL ? NULL : table->fenced[run->warp->number];
}

void relaxed_signal(struct run *run, struct vector_clock *gathered) {
    const struct vector_clock *fenced = vclock_fenced(run);
    execution_join(run->cluster, gathered, run->warp->clock);
    causal_join(run->cluster, gathered, run->warp->clock);
    if (fenced != NULL) {
        vclock_join(run->cluster, gathered, fenced);
    }
    (void)join_sc_fences(run, gathered);
}

void vclock_noticed(struct run *run, const struct vector_clock *signalled) {
    struct vector_clock **noticed = warp_fence_clock(run, true);
    *noticed = *noticed == NULL ? vclock_make(run->cluster) : *noticed;
    vclock_join(run->cluster, *noticed, signalled);
    note_signal(run);
}

static void sync_relaxed(struct run *run, bool write) {
    struct sync_table *table = sync_table(run->cluster);
    if (table->relaxed == NULL) {
        table->relaxed = vclock_make(run->cluster);
    }
    causal_join(run->cluster, write ? table->relaxed : run->warp->clock,
                write ? run->warp->clock : table->relaxed);
}

/* Takes over what other clusters have released at a global address: now for an acquire, with the next acquiring
 * fence for a relaxed access. */
static void hear_location(struct run *run, uint64_t address, enum sync_order order) {
    const bool ordered = order != SYNC_RELAXED;
    bool narrow = false;
    const uint32_t heard = (address & WINDOW_MASK) == 0 ? races_heard(run, address, &narrow) : 0;
    if (heard == 0) {
        return;
    }
    struct vector_clock **noticed = ordered ? NULL : warp_fence_clock(run, true);
    if (noticed != NULL && *noticed == NULL) {
        *noticed = vclock_make(run->cluster);
    }
    if (!ordered) {
        note_signal(run);
    }
    struct vector_clock *clock = ordered ? run->warp->clock : *noticed;
    const uint32_t clock_index = run->cluster->heard_index;
    if (clock->acquired[clock_index] < heard) {
        if (!ordered && !narrow) {
            struct sc_fences *own = sc_of_warp(run);
            warp_tick(run->warp); /* a barrier before now has an earlier time */
            own->notice[own->notices++ % NOTICES] = (struct notice){
                .time = run->warp->clock->acquired[run->warp->number], .heard = heard, .insn = run->insn};
        }
        if (ordered && (narrow || order == SYNC_ORDERED_CTA)) {
            report_narrow_scope(run, NULL);
        }
        clock->acquired[clock_index] = clock->per_lane[clock_index] = heard;
    }
}

void report_narrow_scope(struct run *run, const struct insn *signal) {
    (void)sim_report_pair(
        run, SIM_REVIEW, "narrow-scope", -1, signal,
        "acquires what a thread of another CTA released, but one of the two accesses has scope .cta, "
        "which includes only the threads of its own CTA");
}

static void note_release(const struct run *run, struct sync_entry *entry, enum sync_order order) {
    const uint32_t own = 1u << run->cta->rank;
    entry->released |= own;
    entry->narrow |= order == SYNC_ORDERED_CTA ? own : 0;
    entry->last = run->insn;
}

static void check_scope(struct run *run, const struct sync_entry *entry, enum sync_order order) {
    const uint32_t others = ~(1u << run->cta->rank);
    if ((entry->narrow & others) != 0 || (order == SYNC_ORDERED_CTA && (entry->released & others) != 0)) {
        report_narrow_scope(run, entry->last);
    }
}

/* The strong access of one lane.  A relaxed one counts as release or acquire only together with a fence. */
static void sync_address(struct run *run, uint64_t address, enum sync_order order, bool release) {
    const bool ordered = order != SYNC_RELAXED;
    const struct vector_clock *fenced = vclock_fenced(run);
    if (!release) {
        hear_location(run, address, order);
    }
    if (!ordered && (release ? fenced == NULL && !join_sc_fences(run, NULL) : run->cluster->sync->count == 0)) {
        return;
    }
    if (!ordered && !release) { /* a relaxed load notices what was released here, if anything was */
        const struct sync_entry *entry = entry_of(run->cluster->sync, address);
        if (entry->clock != NULL) {
            vclock_noticed(run, entry->clock);
        }
        return;
    }
    struct vector_clock *clock = location(run->cluster, address);
    if (clock == NULL) {
        return;
    }
    if (!ordered) {
        if (fenced != NULL) {
            vclock_join(run->cluster, clock, fenced);
        }
        (void)join_sc_fences(run, clock);
    } else if (release) {
        vclock_publish(run, clock);
        note_release(run, entry_of(run->cluster->sync, address), order);
    } else {
        check_scope(run, entry_of(run->cluster->sync, address), order);
        vclock_observe(run, clock);
    }
    if (release && (address & WINDOW_MASK) == 0) {
        const struct sc_fences *sc = run->cluster->sync->sc;
        const bool narrow = !ordered && sc != NULL && sc[run->warp->number].narrow;
        races_released(run, address, clock, narrow || order == SYNC_ORDERED_CTA);
    }
}

/* The notice of a warp that was the first to tell of what another cluster did then; NULL for none. */
static struct notice *first_notice(const struct run *run, struct sc_fences *of, uint32_t cluster,
                                   uint32_t clock_index, uint32_t value) {
    const uint32_t kept = of->notices < NOTICES ? of->notices : NOTICES;
    for (uint32_t i = of->notices - kept; i != of->notices; i++) {
        struct notice *notice = &of->notice[i % NOTICES];
        if (heard_of(run, notice->heard, cluster, clock_index, value, false)) {
            return notice;
        }
    }
    return NULL;
}

bool noticed_behind_fence(const struct run *run, uint32_t cluster, uint32_t clock_index, uint32_t value,
                          bool needs_barrier) {
    struct sc_fences *sc = run->cluster->sync == NULL ? NULL : run->cluster->sync->sc;
    const struct vector_clock *clock = run->warp->clock;
    for (uint32_t i = 0; sc != NULL && i < all_warps(run->cluster); i++) {
        struct notice *notice = first_notice(run, &sc[i], cluster, clock_index, value);
        if (notice == NULL || (needs_barrier ? clock->met : clock->acquired)[i] < notice->time) {
            continue;
        }
        if (notice->asked != run->insn) {
            notice->asked = run->insn;
            notice->waits = waits_for_load(run->launch->module, notice->insn, run->insn);
        }
        if (notice->waits) {
            return true;
        }
    }
    return false;
}

/* Only the first address of a store or an atomic passes a message: those to many places are data.  Lanes may
 * poll a flag each. */
static void note_time(struct run *run, uint64_t address, bool release, bool first) {
    if ((address & WINDOW_MASK) == 0 && (first || (!release && run->insn->cls != CL_ATOM))) {
        if (release) {
            races_signalled(run, address);
        } else {
            races_noticed(run, address);
        }
    }
}

void sync_location(struct run *run, uint32_t mask, enum sync_order order, bool release) {
    const struct insn *insn = run->insn;
    if (!run->cluster->checks) {
        return;
    }
    if (order == SYNC_RELAXED) {
        sync_relaxed(run, release);
    }
    if (order == SYNC_RELAXED && insn->space == SP_SHARED &&
        (release ? vclock_fenced(run) == NULL && !join_sc_fences(run, NULL) : run->cluster->sync->count == 0)) {
        return; /* nothing was fenced or released, and other clusters do not see it */
    }
    struct operand base = insn->op[insn->nop - 1];
    uint64_t before = 0;
    bool told = false;
    FOR_LANES(rest, mask) {
        uint64_t address = lane_u64(run, base, LANE(rest)) + (uint64_t)insn->offset;
        if (insn->space == SP_SHARED || insn->space == SP_SHARED_CLUSTER) {
            address |= SHARED_WINDOW;
        }
        if (address != before) { /* the lanes mostly use one flag */
            sync_address(run, address, order, release);
            note_time(run, address, release, !told);
            told = true;
        }
        before = address;
    }
}
