/* Allocation for a running launch: when the heap is exhausted, the launch ends on all its workers. */
#include <stdlib.h>

#include "machine.h"

void launch_no_memory(struct launch *launch) {
    atomic_store(&launch->no_memory, true);
    atomic_store(&launch->stop, true);
}

static void *checked(struct worker *worker, void *taken) {
    if (taken == NULL) {
        launch_no_memory(worker->launch);
        longjmp(worker->unwind, 1);
    }
    return taken;
}

void *run_take(struct worker *worker, size_t count, size_t size) {
    return checked(worker, calloc(count, size));
}

void *run_take_aligned(struct worker *worker, size_t alignment, size_t bytes) {
    return checked(worker, aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment));
}

void run_grow(struct worker *worker, void *list, size_t count, uint32_t *room, size_t size) {
    const size_t before = *room;
    char *elements;
    if (!list_grow(list, count, room, size, SHORT_LIST)) {
        (void)checked(worker, NULL);
    }
    memcpy(&elements, list, sizeof elements);
    memset(elements + before * size, 0, (*room - before) * size);
}
