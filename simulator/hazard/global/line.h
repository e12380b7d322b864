/* The record of a line of global memory: what launches have done to it. */
#ifndef SIM_HAZARD_LINE_H
#define SIM_HAZARD_LINE_H

#include <stdatomic.h>

#include "global_record.h"
#include "machine/machine.h"

#define MOST_PC 0xfffffffu

/* What a launch did to a line. */
struct use {
    uint32_t launch;     /* 0: none */
    uint32_t pc : 28;    /* of the last new bytes; in a copy 0 */
    uint32_t early : 1;  /* some of it before griddepcontrol.wait */
    uint32_t strong : 1; /* all of it (PTX ISA, memory consistency model: strong operations) */
    uint32_t write : 1;
    uint32_t place : 1; /* no use of its own, but where bytes of a use came from */
    uint64_t mask[RECORD_WORDS];
};

/* What few lines have. */
struct more {
    uint32_t count, room;
    struct use *uses;
};

struct line {
    struct use last[2]; /* read, written */
    struct more *more;
    uint32_t released; /* the last launch that wrote here by a strong operation */
    atomic_flag lock;
};
_Static_assert(sizeof(struct line) == 64, "half of what it is about");

/* Zeroed by calloc: pages of it that no access reaches cost nothing. */
struct lines {
    uint64_t count;
    bool any_more, any_uses;
    struct images *images;  /* by line; behind the lines */
    struct line_uses *uses; /* by line; behind those */
    char to_cache_line[16]; /* of a large block, which begins 16 bytes into a page */
    struct line line[];
};

/* ---- an access ---- */

struct access {
    struct launch *launch;
    const struct allocation *allocation;
    struct run *run; /* NULL: a copy */
    const struct known *view;
    uint32_t pc;
    int lane;
    bool early, strong, write;
    bool all_known; /* by a flag of an earlier launch */
    bool unsynced;  /* only a sibling lane has waited */
    unsigned flags;
    const struct epoch *epoch; /* of a thread's access, for races inside the launch */
};

/* Forgets what no later launch has to look at any more. */
void line_prune(const struct access *access, const struct line *line, const uint64_t mask[RECORD_WORDS]);
/* Puts the access into the record, with the line locked.  False: no memory. */
bool line_note(const struct access *access, struct line *line, const uint64_t mask[RECORD_WORDS]);

static inline void line_lock(struct line *line) {
    while (atomic_flag_test_and_set_explicit(&line->lock, memory_order_acquire)) {
    }
}

/* ---- masks ---- */

static inline bool covers(const uint64_t a[RECORD_WORDS], const uint64_t b[RECORD_WORDS]) {
    return ((b[0] & ~a[0]) | (b[1] & ~a[1])) == 0;
}

static inline bool overlap(const uint64_t a[RECORD_WORDS], const uint64_t b[RECORD_WORDS]) {
    return ((a[0] & b[0]) | (a[1] & b[1])) != 0;
}

#endif
