/* Events in the order of time: a heap. */
#include <stdlib.h>

#include "timing.h"

static bool before(const struct event *a, const struct event *b) {
    return a->at != b->at ? a->at < b->at : a->number < b->number;
}

void event_put(struct timing *timing, struct agenda *agenda, struct event event) {
    if (!LIST_GROW(agenda->events, agenda->count, agenda->room)) {
        timing->no_memory = true;
        return;
    }
    uint32_t at = agenda->count++;
    while (at > 0 && before(&event, &agenda->events[(at - 1) / 2])) {
        agenda->events[at] = agenda->events[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    agenda->events[at] = event;
}

struct event event_take(struct agenda *agenda) {
    struct event first = agenda->events[0], last = agenda->events[--agenda->count];
    uint32_t at = 0;
    for (uint32_t child = 1; child < agenda->count; child = 2 * at + 1) {
        child += child + 1 < agenda->count && before(&agenda->events[child + 1], &agenda->events[child]);
        if (!before(&agenda->events[child], &last)) {
            break;
        }
        agenda->events[at] = agenda->events[child];
        at = child;
    }
    agenda->events[at] = last;
    return first;
}

ticks event_next(const struct agenda *agenda) {
    return agenda->count > 0 ? agenda->events[0].at : NEVER;
}

void event_add(struct timing *timing, struct island *island, struct event event) {
    event.number = timing->number++;
    event_put(timing, &island->agenda, event);
}

struct island *island_of(const struct timing *timing, const struct cta *cta) {
    return &timing->islands[cta->cluster->island];
}

void event_add_stage(struct timing *timing, struct async_op *op, const struct cta *cta, ticks at,
                     uint8_t stage) {
    event_add(timing, island_of(timing, cta), (struct event){.at = at, .op = op, .stage = stage});
}
