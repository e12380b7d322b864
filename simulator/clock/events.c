/* An island's events: a heap by time, equal times in the order in which they were added. */
#include <stdlib.h>

#include "timing.h"

static bool before(const struct event *a, const struct event *b) {
    return a->at != b->at ? a->at < b->at : a->number < b->number;
}

void event_add(struct timing *timing, struct island *island, struct event event) {
    if (island->count == island->room) {
        uint32_t room = island->room == 0 ? 64 : 2 * island->room;
        struct event *grown = realloc(island->events, room * sizeof *grown);
        if (grown == NULL) {
            timing->no_memory = true;
            return;
        }
        island->events = grown;
        island->room = room;
    }
    event.number = timing->number++;
    uint32_t at = island->count++;
    while (at > 0 && before(&event, &island->events[(at - 1) / 2])) {
        island->events[at] = island->events[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    island->events[at] = event;
}

struct event event_take(struct island *island) {
    struct event first = island->events[0], last = island->events[--island->count];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= island->count) {
            break;
        }
        child += child + 1 < island->count && before(&island->events[child + 1], &island->events[child]);
        if (!before(&island->events[child], &last)) {
            break;
        }
        island->events[at] = island->events[child];
        at = child;
    }
    island->events[at] = last;
    return first;
}

struct island *island_of(const struct timing *timing, const struct cta *cta) {
    return &timing->islands[cta->cluster->island];
}

void event_add_stage(struct timing *timing, struct async_op *op, const struct cta *cta, ticks at,
                     uint8_t stage) {
    event_add(timing, island_of(timing, cta), (struct event){.at = at, .op = op, .stage = stage});
}
