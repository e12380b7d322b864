/* Flags in global memory: the releases of each cluster, and which of them other clusters have heard of. */
#include <stdlib.h>

#include "releases.h"

#define RELEASED_BYTES ((size_t)64 << 20) /* budget of a launch for the clocks of releases */
#define READER_BYTES   ((size_t)64 << 20) /* budget of a launch for tables of readers (global/races.c) */
#define FIRST_ROOM     16

/* A map from 64-bit keys to numbers from 1 on: open addressing, more than half of it free. */
struct numbers {
    uint64_t *key; /* + 1; 0: free */
    uint32_t *value;
    uint32_t count, room;
};

/* The releases of a cluster.  Each is stored with all that the cluster had released before. */
struct released {
    uint32_t count, room;
    uint32_t **clock; /* by release: the vector `acquired`, then the vector `async` */
    uint32_t indices; /* length of either vector */
};

/* A flag: for each cluster, the number of the last release that an acquire of this flag learns of. */
struct flag {
    struct numbers of;
    uint64_t narrow, others; /* releases of scope .cta: 1 + the last cluster, and whether others made one too */
};

struct races {
    pthread_mutex_t lock;
    struct numbers clusters; /* by cluster: 1 + index in `released` */
    struct released *released;
    uint32_t released_room;
    struct numbers flags; /* by address: 1 + index in `flag` */
    struct flag *flag;
    uint32_t flag_room;
    size_t bytes;
    atomic_size_t reader_bytes;
    atomic_bool lost; /* releases were dropped for lack of room: an apparent race may be ordered */
};

/* The notes of a cluster (releases.h). */
struct heard {
    struct {
        uint32_t cluster, release;
    } *note;
    uint32_t count, room;
    struct numbers latest; /* by cluster: the highest release noted */
};

/* ---- numbers ---- */

static void numbers_free(struct numbers *numbers) {
    free(numbers->key);
    free(numbers->value);
    *numbers = (struct numbers){.count = 0};
}

static uint32_t place_of(const struct numbers *numbers, uint64_t key) {
    uint64_t state = key;
    uint32_t at = (uint32_t)next_random(&state) & (numbers->room - 1);
    while (numbers->key[at] != 0 && numbers->key[at] != key + 1) {
        at = (at + 1) & (numbers->room - 1);
    }
    return at;
}

/* 0 if the key is not there. */
static uint32_t number_of(const struct numbers *numbers, uint64_t key) {
    return numbers->room == 0 ? 0 : numbers->value[place_of(numbers, key)];
}

/* NULL: no memory. */
static uint32_t *number_at(struct numbers *numbers, uint64_t key) {
    if (2 * (numbers->count + 1) > numbers->room) {
        struct numbers grown = {.room = numbers->room == 0 ? FIRST_ROOM : 2 * numbers->room,
                                .count = numbers->count};
        grown.key = calloc(grown.room, sizeof *grown.key);
        grown.value = calloc(grown.room, sizeof *grown.value);
        if (grown.key == NULL || grown.value == NULL) {
            numbers_free(&grown);
            return NULL;
        }
        for (uint32_t i = 0; i < numbers->room; i++) {
            if (numbers->key[i] != 0) {
                uint32_t at = place_of(&grown, numbers->key[i] - 1);
                grown.key[at] = numbers->key[i];
                grown.value[at] = numbers->value[i];
            }
        }
        numbers_free(numbers);
        *numbers = grown;
    }
    uint32_t at = place_of(numbers, key);
    if (numbers->key[at] == 0) {
        numbers->key[at] = key + 1;
        numbers->count++;
    }
    return &numbers->value[at];
}

static bool raise(struct numbers *numbers, uint64_t key, uint32_t value) {
    uint32_t *now = number_at(numbers, key);
    if (now != NULL && *now < value) {
        *now = value;
    }
    return now != NULL;
}

/* ---- releases and flags ---- */

struct races *races_make(void) {
    struct races *races = calloc(1, sizeof *races);
    if (races != NULL) {
        (void)pthread_mutex_init(&races->lock, NULL);
    }
    return races;
}

void races_free(struct races *races) {
    if (races == NULL) {
        return;
    }
    for (uint32_t i = 0; i < races->clusters.count; i++) {
        for (uint32_t j = 0; j < races->released[i].count; j++) {
            free(races->released[i].clock[j]);
        }
        free(races->released[i].clock);
    }
    for (uint32_t i = 0; i < races->flags.count; i++) {
        numbers_free(&races->flag[i].of);
    }
    free(races->released);
    free(races->flag);
    numbers_free(&races->clusters);
    numbers_free(&races->flags);
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

/* The element of `list` for a key, which is added if it is new; NULL: no memory. */
static void *listed(struct numbers *numbers, uint64_t key, void **list, uint32_t *room, size_t size) {
    uint32_t *place = number_at(numbers, key);
    if (place == NULL) {
        return NULL;
    }
    if (*place == 0) {
        uint32_t count = numbers->count;
        if (count > *room) {
            uint32_t more = *room == 0 ? FIRST_ROOM : 2 * *room;
            void *grown = realloc(*list, more * size);
            if (grown == NULL) {
                return NULL;
            }
            memset((uint8_t *)grown + *room * size, 0, (more - *room) * size);
            *list = grown;
            *room = more;
        }
        *place = count;
    }
    return (uint8_t *)*list + (*place - 1) * size;
}

/* Stores a release; returns its number, or 0 if there is no memory. */
static uint32_t add_release(struct races *races, const struct cluster *cluster,
                            const struct vector_clock *released) {
    void *list = races->released;
    struct released *own = listed(&races->clusters, cluster->number, &list, &races->released_room, sizeof *own);
    races->released = list;
    if (own == NULL) {
        return 0;
    }
    if (own->count == own->room) {
        uint32_t room = own->room == 0 ? 4 : 2 * own->room;
        uint32_t **grown = realloc(own->clock, room * sizeof *grown);
        if (grown == NULL) {
            return 0;
        }
        own->clock = grown;
        own->room = room;
    }
    const uint32_t indices = cluster->clock_capacity;
    uint32_t *clock = malloc(2 * indices * sizeof *clock);
    if (clock == NULL) {
        return 0;
    }
    own->indices = indices;
    for (uint32_t i = 0; i < 2 * indices; i++) {
        uint32_t before = own->count == 0 ? 0 : own->clock[own->count - 1][i];
        uint32_t now = i < indices ? released->acquired[i] : released->async[i - indices];
        clock[i] = now > before ? now : before;
    }
    own->clock[own->count++] = clock;
    races->bytes += 2 * indices * sizeof *clock;
    return own->count;
}

static bool tell_flag(struct races *races, const struct cluster *cluster, uint64_t address, uint32_t heard,
                      uint32_t release, bool of_cta) {
    void *list = races->flag;
    struct flag *flag = listed(&races->flags, address, &list, &races->flag_room, sizeof *flag);
    races->flag = list;
    bool done = flag != NULL && raise(&flag->of, cluster->number, release);
    if (done && of_cta) {
        flag->others |= flag->narrow != 0 && flag->narrow != cluster->number + 1;
        flag->narrow = cluster->number + 1;
    }
    for (uint32_t i = 0; done && i < heard; i++) {
        done = raise(&flag->of, cluster->heard->note[i].cluster, cluster->heard->note[i].release);
    }
    return done;
}

void races_released(struct run *run, uint64_t address, const struct vector_clock *clock, bool of_cta) {
    struct races *races = run->launch->races;
    struct cluster *cluster = run->cluster;
    if (races == NULL || run->launch->ncluster < 2) {
        return;
    }
    (void)pthread_mutex_lock(&races->lock);
    bool done = true;
    if (races->bytes > RELEASED_BYTES) {
        atomic_store(&races->lost, true);
    } else {
        uint32_t release = add_release(races, cluster, clock);
        done = release != 0 &&
               tell_flag(races, cluster, address, clock->acquired[cluster->heard_index], release, of_cta);
    }
    (void)pthread_mutex_unlock(&races->lock);
    if (!done) {
        launch_no_memory(run->launch);
    }
}

void heard_reset(struct heard *heard) {
    if (heard != NULL) {
        heard->count = 0;
        numbers_free(&heard->latest);
    }
}

void heard_free(struct heard *heard) {
    if (heard != NULL) {
        free(heard->note);
        numbers_free(&heard->latest);
        free(heard);
    }
}

static bool hear(struct heard *heard, uint32_t cluster, uint32_t release) {
    uint32_t *latest = number_at(&heard->latest, cluster);
    if (latest == NULL) {
        return false;
    }
    if (*latest >= release) {
        return true;
    }
    if (heard->count == heard->room) {
        uint32_t room = heard->room == 0 ? FIRST_ROOM : 2 * heard->room;
        void *grown = realloc(heard->note, room * sizeof *heard->note);
        if (grown == NULL) {
            return false;
        }
        heard->note = grown;
        heard->room = room;
    }
    *latest = release;
    heard->note[heard->count].cluster = cluster;
    heard->note[heard->count++].release = release;
    return true;
}

uint32_t races_heard(struct run *run, uint64_t address, bool *narrow) {
    struct races *races = run->launch->races;
    struct cluster *cluster = run->cluster;
    if (races == NULL || run->launch->ncluster < 2) {
        return 0;
    }
    if (cluster->heard == NULL) {
        cluster->heard = run_take(run->worker, 1, sizeof *cluster->heard);
    }
    (void)pthread_mutex_lock(&races->lock);
    uint32_t place = number_of(&races->flags, address);
    bool done = true;
    const struct flag *flag = place == 0 ? NULL : &races->flag[place - 1];
    *narrow = flag != NULL && flag->narrow != 0 && (flag->others || flag->narrow != cluster->number + 1);
    const struct numbers *of = flag == NULL ? NULL : &flag->of;
    for (uint32_t i = 0; of != NULL && done && i < of->room; i++) {
        if (of->key[i] != 0 && of->key[i] - 1 != cluster->number) {
            done = hear(cluster->heard, (uint32_t)(of->key[i] - 1), of->value[i]);
        }
    }
    (void)pthread_mutex_unlock(&races->lock);
    if (!done) {
        launch_no_memory(run->launch);
    }
    return place == 0 ? 0 : cluster->heard->count;
}

bool heard_of(const struct run *run, uint32_t heard, uint32_t cluster, uint32_t clock_index, uint32_t value,
              bool fenced) {
    struct races *races = run->launch->races;
    uint32_t release = 0;
    for (uint32_t i = heard; i > 0 && release == 0;
         i--) { /* the last note of a cluster has its highest number */
        release =
            run->cluster->heard->note[i - 1].cluster == cluster ? run->cluster->heard->note[i - 1].release : 0;
    }
    if (release == 0) {
        return false;
    }
    (void)pthread_mutex_lock(&races->lock);
    const struct released *of = &races->released[number_of(&races->clusters, cluster) - 1];
    bool known =
        clock_index < of->indices && of->clock[release - 1][(fenced ? of->indices : 0) + clock_index] >= value;
    (void)pthread_mutex_unlock(&races->lock);
    return known;
}

bool releases_lost(const struct launch *launch) {
    return atomic_load(&launch->races->lost);
}
