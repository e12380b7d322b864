/* Queues, events and dependent launches as sets of launches known to be complete (order.h). */
#include "order.h"

#include <stdlib.h>

#include "delayed.h"
#include "hazard/hazard.h"

#define FIRST_NUMBER 1 /* 0: no launch */

struct queue {
    bool blocking, live;
    uint32_t
        last; /* its last entry if that is a kernel, else 0: only a kernel lets its successor start early */
    struct known all;    /* all its entries, and what they know */
    struct known start;  /* what the CTAs of its last kernel knew when they let the next one start */
    struct known waited; /* its last kernel, and what the end of that implies */
};

struct launch_sequence {
    struct queue *queue;
    uint32_t nqueues, queue_room, selected;
    struct known host;           /* what the host has waited for: all that it submits comes after these */
    struct submitted *submitted; /* by number - FIRST_NUMBER */
    uint32_t count, room;
    uint32_t freed; /* the images (delayed.h) of launches before this number are freed */
};

static bool add_queue(struct launch_sequence *order, bool blocking) {
    if (!LIST_GROW(order->queue, order->nqueues, order->queue_room)) {
        return false;
    }
    order->queue[order->nqueues++] = (struct queue){.blocking = blocking,
                                                    .live = true,
                                                    .all = {.floor = FIRST_NUMBER},
                                                    .start = {.floor = FIRST_NUMBER},
                                                    .waited = {.floor = FIRST_NUMBER}};
    return true;
}

static void free_images(struct submitted *submitted) {
    for (struct image_chunk *chunk = submitted->images, *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    submitted->images = NULL;
}

struct launch_sequence *order_make(void) {
    struct launch_sequence *order = calloc(1, sizeof *order);
    if (order == NULL) {
        return NULL;
    }
    order->host.floor = order->freed = FIRST_NUMBER;
    if (!add_queue(order, true)) {
        free(order);
        return NULL;
    }
    return order;
}

void order_free(struct launch_sequence *order) {
    if (order == NULL) {
        return;
    }
    for (uint32_t i = 0; i < order->nqueues; i++) {
        known_free(&order->queue[i].all);
        known_free(&order->queue[i].start);
        known_free(&order->queue[i].waited);
    }
    for (uint32_t i = 0; i < order->count; i++) {
        free_images(&order->submitted[i]);
    }
    known_free(&order->host);
    free(order->queue);
    free(order->submitted);
    free(order);
}

struct submitted *order_submitted(struct launch_sequence *order, uint32_t number) {
    return &order->submitted[number - FIRST_NUMBER];
}

static bool submit(struct launch_sequence *order, const char *name, const struct module *module) {
    if (!list_grow((void *)&order->submitted, order->count, &order->room, sizeof *order->submitted,
                   LONG_LIST)) {
        return false;
    }
    order->submitted[order->count++] =
        (struct submitted){.name = name, .module = module, .queue = order->selected};
    return true;
}

/* Joins what must be complete before an entry of this queue starts, besides the queue itself: what the host has
 * waited for, and the rule of the legacy default stream (CUDA programming guide, default stream). */
static bool join_others(const struct launch_sequence *order, uint32_t queue, struct known *known) {
    bool done = known_join(known, &order->host);
    if (queue != 0 && order->queue[queue].blocking) {
        done = done && known_join(known, &order->queue[0].all);
    }
    for (uint32_t i = 1; queue == 0 && i < order->nqueues; i++) {
        done = done && (!order->queue[i].blocking || known_join(known, &order->queue[i].all));
    }
    return done;
}

/* The first launch that some launch to come may not know.  A queue that is made later counts as ordered after
 * all launches settled by then. */
static uint32_t settled(const struct launch_sequence *order) {
    uint32_t least = order->count + FIRST_NUMBER;
    for (uint32_t i = 0; i < order->nqueues; i++) {
        const struct queue *queue = &order->queue[i];
        uint32_t floor = queue->last != 0 ? queue->start.floor : queue->all.floor;
        floor = floor > order->host.floor ? floor : order->host.floor;
        least = queue->live && floor < least ? floor : least;
    }
    return least;
}

bool order_begin(struct launch_sequence *order, struct launch_order *launch, const char *name,
                 const struct module *module, bool dependent, bool delays) {
    struct queue *queue = &order->queue[order->selected];
    launch->settled = settled(order);
    for (; order->freed < launch->settled; order->freed++) {
        free_images(order_submitted(order, order->freed));
    }
    launch->previous = dependent ? queue->last : 0;
    launch->dependent = launch->previous != 0;
    launch->delays = delays;
    bool done = submit(order, name, module) &&
                known_copy(&launch->start, launch->dependent ? &queue->start : &queue->all) &&
                join_others(order, order->selected, &launch->start) &&
                known_copy(&launch->waited, &launch->start) &&
                (!launch->dependent || known_join(&launch->waited, &queue->waited));
    launch->number = order->count; /* FIRST_NUMBER is 1 */
    launch->sees_old = launch->start.floor < launch->number;
    launch->images = done ? &order_submitted(order, launch->number)->images : NULL;
    if (!done) {
        known_free(&launch->start);
        known_free(&launch->waited);
    }
    return done;
}

bool order_end(struct launch_sequence *order, struct launch_order *launch) {
    struct queue *queue = &order->queue[order->selected];
    struct submitted *own = order_submitted(order, launch->number);
    own->lets_start = atomic_load(&launch->lets_start);
    own->implied = (atomic_load(&launch->any_waited) ? launch->waited : launch->start).floor;
    const struct known *at_start = atomic_load(&launch->start_implies) ? &launch->waited : &launch->start;
    const struct known *at_end = atomic_load(&launch->any_waited) ? &launch->waited : &launch->start;
    queue->last = own->module != NULL ? launch->number : 0;
    bool done = known_copy(&queue->start, at_start) && known_copy(&queue->waited, at_end) &&
                known_add(&queue->waited, launch->number) && known_join(&queue->all, &launch->waited) &&
                known_add(&queue->all, launch->number);
    known_free(&launch->start);
    known_free(&launch->waited);
    return done;
}

/* ---- queues, events, the host ---- */

uint32_t order_queue(struct launch_sequence *order, bool blocking) {
    for (uint32_t i = 1; i < order->nqueues; i++) {
        struct queue *queue = &order->queue[i];
        if (!queue->live && known_join(&queue->all, &order->host) && queue->all.floor == order->host.floor &&
            queue->all.words ==
                order->host.words) { /* reuse a destroyed queue once the host has waited for it */
            queue->live = true;
            queue->blocking = blocking;
            queue->last = 0;
            return i;
        }
    }
    return add_queue(order, blocking) ? order->nqueues - 1 : 0;
}

void order_queue_ends(struct launch_sequence *order, uint32_t queue) {
    if (queue > 0 && queue < order->nqueues) {
        order->queue[queue].live = false;
    }
    order->selected = order->selected == queue ? 0 : order->selected;
}

void order_select(struct launch_sequence *order, uint32_t queue) {
    order->selected = queue < order->nqueues ? queue : 0;
}

uint32_t order_selected(const struct launch_sequence *order) {
    return order->selected;
}

bool order_synchronize(struct launch_sequence *order, uint32_t queue) {
    return queue >= order->nqueues ||
           (known_join(&order->host, &order->queue[queue].all) && join_others(order, queue, &order->host));
}

bool order_synchronize_all(struct launch_sequence *order) {
    bool done = true;
    for (uint32_t i = 0; i < order->nqueues; i++) {
        done = done && known_join(&order->host, &order->queue[i].all);
    }
    return done;
}

struct known *order_record(struct launch_sequence *order, uint32_t queue) {
    struct known *event = calloc(1, sizeof *event);
    if (event != NULL) {
        event->floor = FIRST_NUMBER;
        if (!known_copy(event, &order->queue[queue < order->nqueues ? queue : 0].all) ||
            !join_others(order, queue, event)) {
            order_event_free(event);
            return NULL;
        }
    }
    return event;
}

bool order_queue_waits(struct launch_sequence *order, uint32_t queue, const struct known *event) {
    struct queue *waits = &order->queue[queue < order->nqueues ? queue : 0];
    return known_join(&waits->all, event) && known_join(&waits->start, event);
}

bool order_host_waits(struct launch_sequence *order, const struct known *event) {
    return known_join(&order->host, event);
}

void order_event_free(struct known *event) {
    if (event != NULL) {
        known_free(event);
        free(event);
    }
}
