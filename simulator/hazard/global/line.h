/* The record of a line of global memory: which launches have used it, and how. */
#ifndef SIM_HAZARD_LINE_H
#define SIM_HAZARD_LINE_H

#include <stdatomic.h>

#include "global_record.h"
#include "machine/machine.h"
#include "races.h"

#define MOST_PC 0xfffffffu

/* The use of a line by a launch. */
struct use {
    uint32_t launch;     /* 0: none */
    uint32_t pc : 28;    /* the instruction that added the last bytes; 0 for a copy */
    uint32_t early : 1;  /* some accesses came before griddepcontrol.wait */
    uint32_t strong : 1; /* all accesses are strong (PTX ISA, memory consistency model: strong operations) */
    uint32_t write : 1;
    uint32_t place : 1; /* not a use: tells which instruction made some bytes of a use */
    uint64_t mask[RECORD_WORDS];
};

/* Further uses, which few lines have. */
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
_Static_assert(sizeof(struct line) == 64, "the record of a 128-byte line takes half as much memory");

/* Zeroed by calloc: pages of it that no access reaches cost nothing. */
struct lines {
    uint64_t count;
    bool any_more, any_uses;
    struct images *images;             /* by line; stored after the lines */
    struct line_uses *uses;            /* by line; stored after the images */
    uint64_t (*written)[RECORD_WORDS]; /* by line: bytes that something has written; stored after the uses */
    bool knows_writes;                 /* reads of other bytes are reported */
    char to_cache_line[16];            /* aligns `line`: calloc returns large blocks 16 bytes into a page */
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
    bool all_known; /* a flag of an earlier launch was seen, so that nothing of earlier launches conflicts */
    bool unsynced;  /* another lane of the warp has executed griddepcontrol.wait, this one has not */
    unsigned flags;
    struct lane_pattern lanes; /* of the line that is touched next */
    const struct epoch *epoch; /* for races inside the launch (races.h); NULL for a copy */
};

/* Drops uses that no later launch has to be checked against. */
void line_prune(const struct access *access, const struct line *line, const uint64_t mask[RECORD_WORDS]);
/* Records the access; the line is locked.  False: no memory. */
bool line_note(const struct access *access, struct line *line, const uint64_t mask[RECORD_WORDS]);

/* The images of the line that holds an address.  Locks the line, to be unlocked with line_unlock; *first: the
 * offset of the address in the line.  NULL, and no lock, if the line has no image. */
struct images *line_images(const struct sim *sim, uint64_t address, struct line **line, uint32_t *first);
void line_unlock(struct line *line);

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
