/* Flags in global memory: the releases of each cluster, and which of them other clusters have heard of.  A
 * second book has the signals that order no memory, in the same way. */
#include <stdlib.h>

#include "machine/numbers.h"
#include "releases.h"

#define RELEASED_BYTES                                                                                         \
    ((size_t)64 << 20) /* budget of a launch for the clocks of releases, and for those of signals */
#define READER_BYTES ((size_t)64 << 20) /* budget of a launch for tables of readers (global/races.c) */

/* The releases of a cluster.  Each is stored with all that the cluster had released before. */
struct released {
    uint32_t count, room;
    uint32_t **clock; /* by release: the vector `acquired`, then the vector `async`; by signal: `causal` */
    uint32_t indices; /* length of a vector */
};

/* A cluster of which an acquire of a flag learns, and the number of its last release that it learns of. */
struct teller {
    uint32_t cluster, release;
    uint32_t older, newer; /* 1 + index of the teller that rose before and after this one; 0: none */
    uint32_t rose;         /* the flag's count when it rose last */
};

/* A flag: a list of its tellers in the order in which they rose, so that a cluster hears only what is new. */
struct flag {
    struct numbers of; /* by cluster: 1 + index in `teller` */
    struct teller *teller;
    uint32_t teller_room, newest, rises;
    uint64_t narrow, others; /* releases of scope .cta: 1 + the last cluster, and whether others made one too */
};

struct book {
    struct numbers clusters; /* by cluster: 1 + index in `released` */
    struct released *released;
    uint32_t released_room;
    struct numbers flags; /* by address: 1 + index in `flag` */
    struct flag *flag;
    uint32_t flag_room;
    size_t bytes;
    atomic_bool any, lost; /* lost: entries were dropped for lack of room, so an apparent race may be ordered */
};

enum { RELEASES, SIGNALS, BOOKS };

struct races {
    pthread_mutex_t lock;
    struct book book[BOOKS];
    atomic_size_t reader_bytes;
};

#define CURSORS 16 /* flags of which a cluster remembers how far it has heard; a power of two */

/* The notes of a cluster from one book (releases.h). */
struct notes {
    struct {
        uint32_t cluster, release;
        uint32_t earlier; /* 1 + index of the note before about this cluster; 0: none */
    } *note;
    uint32_t count, room;
    uint32_t *latest; /* by cluster: 1 + index of its last note, which has its highest release */
    /* By index of a flag: how many of its rises this cluster has heard, and how many notes it has told it. */
    struct {
        uint32_t flag, heard, told; /* flag: 1 + index; 0: none */
    } cursor[CURSORS];
};

struct heard {
    struct notes from[BOOKS];
};

/* ---- releases and flags ---- */

struct races *races_make(void) {
    struct races *races = calloc(1, sizeof *races);
    if (races != NULL) {
        (void)pthread_mutex_init(&races->lock, NULL);
    }
    return races;
}

static void book_free(struct book *book) {
    for (uint32_t i = 0; i < book->clusters.count; i++) {
        for (uint32_t j = 0; j < book->released[i].count; j++) {
            free(book->released[i].clock[j]);
        }
        free(book->released[i].clock);
    }
    for (uint32_t i = 0; i < book->flags.count; i++) {
        numbers_free(&book->flag[i].of);
        free(book->flag[i].teller);
    }
    free(book->released);
    free(book->flag);
    numbers_free(&book->clusters);
    numbers_free(&book->flags);
}

void races_free(struct races *races) {
    if (races == NULL) {
        return;
    }
    for (int i = 0; i < BOOKS; i++) {
        book_free(&races->book[i]);
    }
    (void)pthread_mutex_destroy(&races->lock);
    free(races);
}

bool races_take_room(struct races *races, size_t bytes) {
    if (atomic_fetch_add(&races->reader_bytes, bytes) + bytes <= READER_BYTES) {
        return true;
    }
    races_give_room(races, bytes);
    return false;
}

void races_give_room(struct races *races, size_t bytes) {
    (void)atomic_fetch_sub(&races->reader_bytes, bytes);
}

/* The key of an address: another one for each, with low bits that differ. */
static uint64_t mixed(uint64_t address) {
    address *= 0x9e3779b97f4a7c15u; /* Knuth's multiplicative hash */
    return address << 32 | address >> 32;
}

/* The element of `list` for a key, which is added if it is new; NULL: no memory. */
static void *listed(struct numbers *numbers, uint64_t key, void **list, uint32_t *room, size_t size) {
    /* The list first: a key without an element would be freed as one. */
    const bool fits = list_grow(list, numbers->count, room, size, SHORT_LIST);
    uint32_t *place = fits ? number_at(numbers, key, ONE_WORD) : NULL;
    if (place == NULL) {
        return NULL;
    }
    if (*place == 0) {
        memset((uint8_t *)*list + (numbers->count - 1) * size, 0, size);
        *place = numbers->count;
    }
    return (uint8_t *)*list + (*place - 1) * size;
}

/* Stores a release of so many indices, with a second vector or none; returns its number, or 0 if there is no
 * memory. */
static uint32_t add_release(struct book *book, const struct cluster *cluster, const uint32_t *first,
                            const uint32_t *second, uint32_t indices) {
    void *list = book->released;
    struct released *own = listed(&book->clusters, cluster->number, &list, &book->released_room, sizeof *own);
    book->released = list;
    if (own == NULL) {
        return 0;
    }
    if (!LIST_GROW(own->clock, own->count, own->room)) {
        return 0;
    }
    const uint32_t length = second == NULL ? indices : 2 * indices;
    uint32_t *clock = malloc(length * sizeof *clock);
    if (clock == NULL) {
        return 0;
    }
    own->indices = indices;
    bool grew = false;
    for (uint32_t i = 0; i < length; i++) {
        uint32_t before = own->count == 0 ? 0 : own->clock[own->count - 1][i];
        uint32_t now = i < indices ? first[i] : second[i - indices];
        clock[i] = now > before ? now : before;
        grew |= now > before;
    }
    if (!grew && own->count > 0) {
        free(clock);
        return own->count;
    }
    own->clock[own->count++] = clock;
    book->bytes += length * sizeof *clock;
    return own->count;
}

/* Takes a teller out of its place in the list of rises and makes it the newest. */
static void rise(struct flag *flag, struct teller *teller) {
    const uint32_t own = (uint32_t)(teller - flag->teller) + 1;
    if (flag->newest != own) {
        if (teller->older != 0) {
            flag->teller[teller->older - 1].newer = teller->newer;
        }
        if (teller->newer != 0) {
            flag->teller[teller->newer - 1].older = teller->older;
        }
        if (flag->newest != 0) {
            flag->teller[flag->newest - 1].newer = own;
        }
        teller->older = flag->newest;
        teller->newer = 0;
        flag->newest = own;
    }
    teller->rose = ++flag->rises;
}

/* False: no memory. */
static bool raise(struct book *book, struct flag *flag, uint32_t cluster, uint32_t release) {
    const uint32_t before = flag->of.room;
    void *list = flag->teller;
    struct teller *teller = listed(&flag->of, cluster, &list, &flag->teller_room, sizeof *teller);
    flag->teller = list;
    book->bytes += (flag->of.room - before) * (sizeof *flag->of.key + sizeof *flag->of.value);
    if (teller != NULL && teller->release < release) {
        teller->cluster = cluster;
        teller->release = release;
        rise(flag, teller);
    }
    return teller != NULL;
}

/* The cluster's cursor for a flag; a new one stands at the beginning. */
static uint32_t cursor_of(struct notes *notes, uint32_t flag) {
    const uint32_t at = flag % CURSORS;
    if (notes->cursor[at].flag != flag + 1) {
        notes->cursor[at].flag = flag + 1;
        notes->cursor[at].heard = notes->cursor[at].told = 0;
    }
    return at;
}

static bool tell_flag(struct book *book, const struct cluster *cluster, uint64_t address, struct notes *notes,
                      uint32_t heard, uint32_t release, bool of_cta) {
    void *list = book->flag;
    struct flag *flag = listed(&book->flags, mixed(address), &list, &book->flag_room, sizeof *flag);
    book->flag = list;
    bool done = flag != NULL && raise(book, flag, cluster->number, release);
    if (done && of_cta) {
        flag->others |= flag->narrow != 0 && flag->narrow != cluster->number + 1;
        flag->narrow = cluster->number + 1;
    }
    if (!done || heard == 0) {
        return done;
    }
    const uint32_t at = cursor_of(notes, (uint32_t)(flag - book->flag));
    for (uint32_t i = notes->cursor[at].told; done && i < heard; i++) {
        done = raise(book, flag, notes->note[i].cluster, notes->note[i].release);
    }
    notes->cursor[at].told = notes->cursor[at].told > heard ? notes->cursor[at].told : heard;
    return done;
}

static bool has_flags(const struct run *run) {
    return run->launch->races != NULL && run->launch->ncluster > 1;
}

/* What a cluster tells at a flag: its clock, and the first `heard` of its notes. */
struct told {
    const uint32_t *first, *second;
    uint32_t indices, heard;
};

static void tell(struct run *run, int which, uint64_t address, const struct told *told, bool of_cta) {
    struct races *races = run->launch->races;
    struct cluster *cluster = run->cluster;
    struct book *book = &races->book[which];
    (void)pthread_mutex_lock(&races->lock);
    bool done = true;
    if (book->bytes > RELEASED_BYTES) {
        atomic_store(&book->lost, true);
    } else {
        uint32_t release = add_release(book, cluster, told->first, told->second, told->indices);
        struct notes *notes = cluster->heard == NULL ? NULL : &cluster->heard->from[which];
        done = release != 0 && tell_flag(book, cluster, address, notes, told->heard, release, of_cta);
        atomic_store(&book->any, true);
    }
    (void)pthread_mutex_unlock(&races->lock);
    if (!done) {
        launch_no_memory(run->launch);
    }
}

void races_released(struct run *run, uint64_t address, const struct vector_clock *clock, bool of_cta) {
    if (has_flags(run)) {
        const struct told told = {clock->acquired, clock->async, run->cluster->clock_capacity,
                                  clock->acquired[run->cluster->heard_index]};
        tell(run, RELEASES, address, &told, of_cta);
    }
}

void races_signalled(struct run *run, uint64_t address) {
    if (has_flags(run)) {
        const struct vector_clock *clock = run->warp->clock;
        const struct told told = {clock->causal, NULL, 2 * all_warps(run->cluster),
                                  clock->causal[run->cluster->heard_index]};
        tell(run, SIGNALS, address, &told, false);
    }
}

void heard_reset(struct heard *heard) {
    for (int i = 0; heard != NULL && i < BOOKS; i++) {
        struct notes *notes = &heard->from[i];
        while (notes->count > 0) {
            notes->latest[notes->note[--notes->count].cluster] = 0;
        }
        memset(notes->cursor, 0, sizeof notes->cursor);
    }
}

void heard_free(struct heard *heard) {
    for (int i = 0; heard != NULL && i < BOOKS; i++) {
        free(heard->from[i].note);
        free(heard->from[i].latest);
    }
    free(heard);
}

static bool hear(struct notes *notes, uint32_t cluster, uint32_t release) {
    uint32_t *latest = &notes->latest[cluster];
    if (*latest != 0 && notes->note[*latest - 1].release >= release) {
        return true;
    }
    if (!LIST_GROW(notes->note, notes->count, notes->room)) {
        return false;
    }
    notes->note[notes->count].cluster = cluster;
    notes->note[notes->count].release = release;
    notes->note[notes->count].earlier = *latest;
    *latest = ++notes->count;
    return true;
}

static uint32_t listen(struct run *run, int which, uint64_t address, bool *narrow) {
    struct races *races = run->launch->races;
    struct cluster *cluster = run->cluster;
    struct book *book = &races->book[which];
    if (!atomic_load(&book->any)) {
        return 0;
    }
    if (cluster->heard == NULL) {
        cluster->heard = run_take(run->worker, 1, sizeof *cluster->heard);
    }
    struct notes *notes = &cluster->heard->from[which];
    if (notes->latest == NULL) { /* nearly all of it may stay untouched */
        const uint32_t *const of = run->launch->clusters;
        notes->latest = run_take(run->worker, (size_t)of[0] * of[1] * of[2], sizeof *notes->latest);
    }
    (void)pthread_mutex_lock(&races->lock);
    uint32_t place = number_of(&book->flags, mixed(address), ONE_WORD);
    bool done = true;
    const struct flag *flag = place == 0 ? NULL : &book->flag[place - 1];
    *narrow = flag != NULL && flag->narrow != 0 && (flag->others || flag->narrow != cluster->number + 1);
    if (flag != NULL) {
        const uint32_t at = cursor_of(notes, place - 1);
        const bool all_told = notes->cursor[at].told == notes->count;
        for (uint32_t i = flag->newest; done && i != 0 && flag->teller[i - 1].rose > notes->cursor[at].heard;
             i = flag->teller[i - 1].older) {
            if (flag->teller[i - 1].cluster != cluster->number) {
                done = hear(notes, flag->teller[i - 1].cluster, flag->teller[i - 1].release);
            }
        }
        notes->cursor[at].heard = flag->rises;
        notes->cursor[at].told = all_told ? notes->count : notes->cursor[at].told; /* the flag knows its own */
    }
    (void)pthread_mutex_unlock(&races->lock);
    if (!done) {
        launch_no_memory(run->launch);
    }
    return place == 0 ? 0 : notes->count;
}

uint32_t races_heard(struct run *run, uint64_t address, bool *narrow) {
    return has_flags(run) ? listen(run, RELEASES, address, narrow) : 0;
}

void races_noticed(struct run *run, uint64_t address) {
    bool narrow = false;
    uint32_t heard = has_flags(run) ? listen(run, SIGNALS, address, &narrow) : 0;
    uint32_t *own = &run->warp->clock->causal[run->cluster->heard_index];
    *own = *own < heard ? heard : *own;
}

static bool comes_after(const struct run *run, int which, uint32_t heard, uint32_t cluster,
                        uint32_t clock_index, uint32_t value, bool second) {
    struct races *races = run->launch->races;
    struct book *book = &races->book[which];
    if (heard == 0) {
        return false;
    }
    const struct notes *notes = &run->cluster->heard->from[which];
    uint32_t last = notes->latest[cluster];
    while (last > heard) { /* notes that this thread does not know */
        last = notes->note[last - 1].earlier;
    }
    if (last == 0) {
        return false;
    }
    const uint32_t release = notes->note[last - 1].release;
    (void)pthread_mutex_lock(&races->lock);
    const struct released *of = &book->released[number_of(&book->clusters, cluster, ONE_WORD) - 1];
    bool known =
        clock_index < of->indices && of->clock[release - 1][(second ? of->indices : 0) + clock_index] >= value;
    (void)pthread_mutex_unlock(&races->lock);
    return known;
}

bool heard_of(const struct run *run, uint32_t heard, uint32_t cluster, uint32_t clock_index, uint32_t value,
              bool fenced) {
    return comes_after(run, RELEASES, heard, cluster, clock_index, value, fenced);
}

bool noticed_of(const struct run *run, uint32_t cluster, uint32_t clock_index, uint32_t value) {
    const uint32_t heard = run->warp->clock->causal[run->cluster->heard_index];
    return comes_after(run, SIGNALS, heard, cluster, clock_index, value, false);
}

bool releases_lost(const struct launch *launch) {
    return atomic_load(&launch->races->book[RELEASES].lost);
}
