/* The record of one line: the last launch that read it, the last that wrote it, and a list of earlier uses that
 * a later launch still has to be ordered after. */
#include "line.h"

#include <stdlib.h>

#include "delayed.h"
#include "races.h"

#define MOST_PLACES 8 /* most distinct PTX lines recorded for one memory line and launch */

struct lines *lines_make(uint64_t bytes) {
    uint64_t count = (bytes >> RECORD_SHIFT) + 1;
    struct lines *lines = calloc(1, sizeof *lines + count * (sizeof *lines->line + sizeof *lines->images +
                                                             sizeof *lines->uses + sizeof *lines->written));
    if (lines != NULL) {
        lines->count = count;
        lines->images = (struct images *)(void *)&lines->line[count];
        lines->uses = (struct line_uses *)(void *)&lines->images[count];
        lines->written = (uint64_t (*)[RECORD_WORDS])(void *)&lines->uses[count];
    }
    return lines;
}

void lines_know_writes(struct lines *lines) {
    lines->knows_writes = true;
}

void lines_free(struct lines *lines) {
    for (uint64_t i = 0; lines != NULL && lines->any_more && i < lines->count; i++) {
        if (lines->line[i].more != NULL) {
            free(lines->line[i].more->uses);
            free(lines->line[i].more);
        }
    }
    for (uint64_t i = 0; lines != NULL && lines->any_uses && i < lines->count; i++) {
        uses_free(&lines->uses[i]);
    }
    free(lines);
}

void line_unlock(struct line *line) {
    atomic_flag_clear_explicit(&line->lock, memory_order_release);
}

static bool keep(const struct access *access, struct line *line, const struct use *use) {
    if (line->more == NULL) {
        line->more = calloc(1, sizeof *line->more);
        if (line->more == NULL) {
            return false;
        }
        __atomic_store_n(&access->allocation->lines->any_more, true, __ATOMIC_RELAXED);
    }
    struct more *more = line->more;
    if (!LIST_GROW(more->uses, more->count, more->room)) {
        return false;
    }
    more->uses[more->count++] = *use;
    return true;
}

/* True if no later launch has to be checked against the use: every launch to come knows it, or this access
 * covers it and is ordered after it. */
static bool needless(const struct access *access, const struct use *use, const uint64_t mask[RECORD_WORDS]) {
    return use->launch < access->launch->order.settled ||
           (!use->place && use->launch != access->launch->order.number && (access->write || !use->write) &&
            covers(mask, use->mask) && known_has(access->view, use->launch));
}

/* True if a later use covers this one, and its completion implies the completion of this one. */
static bool implied(const struct access *access, const struct use *use, const struct use *later) {
    return !use->place && later->launch > use->launch && later->launch != access->launch->order.number &&
           (later->write || !use->write) && covers(later->mask, use->mask) &&
           use->launch < order_submitted(access->launch->sim->order, later->launch)->implied;
}

void line_prune(const struct access *access, const struct line *line, const uint64_t mask[RECORD_WORDS]) {
    struct more *more = line->more;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < more->count; i++) {
        const struct use *use = &more->uses[i];
        if (!needless(access, use, mask) && !implied(access, use, &line->last[0]) &&
            !implied(access, use, &line->last[1])) {
            more->uses[kept++] = *use;
        }
    }
    more->count = kept;
}

/* Records where the bytes used so far come from, if this access is by another PTX line of the same launch, so
 * that a finding can name the right line. */
static bool keep_place(const struct access *access, struct line *line, const struct use *use,
                       const uint64_t mask[RECORD_WORDS]) {
    if (use->pc == access->pc || covers(use->mask, mask)) {
        return true;
    }
    uint32_t places = 0;
    for (uint32_t i = 0; line->more != NULL && i < line->more->count; i++) {
        struct use *other = &line->more->uses[i];
        if (other->place && other->launch == use->launch && other->write == use->write) {
            places++;
        }
    }
    struct use place = *use;
    place.place = true;
    for (uint32_t i = 0; line->more != NULL && i < line->more->count;
         i++) { /* less the bytes of other places */
        const struct use *other = &line->more->uses[i];
        if (other->place && other->launch == use->launch && other->write == use->write) {
            place.mask[0] &= ~other->mask[0];
            place.mask[1] &= ~other->mask[1];
        }
    }
    return places == MOST_PLACES || keep(access, line, &place);
}

bool line_note(const struct access *access, struct line *line, const uint64_t mask[RECORD_WORDS]) {
    struct use *use = &line->last[access->write];
    bool kept = true;
    if (use->launch == access->launch->order.number) {
        kept = keep_place(access, line, use, mask);
        use->early |= access->early;
        use->strong &= access->strong;
        use->mask[0] |= mask[0];
        use->mask[1] |= mask[1];
        use->pc = access->pc & MOST_PC;
        return kept;
    }
    if (use->launch != 0 && !needless(access, use, mask)) {
        kept = keep(access, line, use);
    }
    __atomic_store_n(&use->launch, 0, __ATOMIC_RELEASE); /* global_record.c reads it without the lock (noted) */
    *use = (struct use){.pc = access->pc & MOST_PC,
                        .early = access->early,
                        .strong = access->strong,
                        .write = access->write,
                        .mask = {mask[0], mask[1]}};
    __atomic_store_n(&use->launch, access->launch->order.number, __ATOMIC_RELEASE);
    return kept;
}

struct images *line_images(const struct sim *sim, uint64_t address, struct line **line, uint32_t *first) {
    struct worker worker = {.launch = NULL};
    const struct allocation *allocation = allocation_of(sim, &worker, address, 1);
    *first = 0;
    if (allocation == NULL || allocation->lines == NULL) {
        return NULL;
    }
    uint64_t at = address - allocation->base;
    *first = at & (RECORD_BYTES - 1);
    *line = &allocation->lines->line[at >> RECORD_SHIFT];
    line_lock(*line);
    if (allocation->lines->images[at >> RECORD_SHIFT].newest != NULL) {
        return &allocation->lines->images[at >> RECORD_SHIFT];
    }
    line_unlock(*line);
    return NULL;
}
