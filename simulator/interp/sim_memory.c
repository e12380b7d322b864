/* The device memory of a simulator: allocations, registered host ranges, frees in a queue (sim.h). */
#include <stdlib.h>
#include <string.h>

#include "hazard/global/global_record.h"
#include "interp.h"
#include "machine/heap.h"

#define TRAP       0xb5 /* new memory is filled with this */
#define MOST_FREED 64   /* allocations freed in a queue that are kept */

/* HW: device allocations are aligned to this (CUDA programming guide); registered host ranges need not be. */
#define PLACE_ALIGNMENT 256

/* The address that the simulated caches use for a range, so that times do not depend on where the host
 * allocates: ranges follow one another in the order of their first allocation, and a range that returns keeps
 * its place. */
static bool place_range(struct sim *sim, uint64_t base, uint64_t bytes, uint64_t *place) {
    for (size_t i = 0; i < sim->nplacements; i++) {
        if (sim->placements[i].base == base && sim->placements[i].bytes == bytes) {
            *place = sim->placements[i].place;
            return true;
        }
    }
    if (!LIST_GROW(sim->placements, sim->nplacements, sim->placements_room)) {
        return false;
    }
    const struct placement *last = sim->nplacements == 0 ? NULL : &sim->placements[sim->nplacements - 1];
    uint64_t end = last == NULL ? 0 : last->place + last->bytes;
    *place = (end + PLACE_ALIGNMENT - 1) / PLACE_ALIGNMENT * PLACE_ALIGNMENT;
    sim->placements[sim->nplacements++] = (struct placement){base, bytes, *place};
    return true;
}

static int add_allocation(struct sim *sim, void *address, size_t bytes, const char *name, bool owned) {
    uint64_t base = (uintptr_t)address;
    if (!LIST_GROW(sim->allocations, sim->nallocations, sim->allocations_room)) {
        return sim_no_memory(sim);
    }
    size_t at = 0;
    while (at < sim->nallocations && sim->allocations[at].base < base) {
        at++;
    }
    if ((at < sim->nallocations && sim->allocations[at].base - base < bytes) ||
        (at > 0 && base - sim->allocations[at - 1].base < sim->allocations[at - 1].bytes)) {
        return sim_fail(sim, SIM_BAD_ARGUMENT, "the range overlaps another allocation");
    }
    uint64_t place = base;
    if (sim->timing != NULL && !place_range(sim, base, bytes, &place)) {
        return sim_no_memory(sim);
    }
    struct allocation made = {.base = base,
                              .bytes = bytes,
                              .place = place,
                              .name = strdup(name),
                              .owned = owned,
                              .lines = sim->options.no_checks ? NULL : lines_make(bytes)};
    if (made.name == NULL || (made.lines == NULL && !sim->options.no_checks)) {
        free(made.name);
        lines_free(made.lines);
        return sim_no_memory(sim);
    }
    memmove(&sim->allocations[at + 1], &sim->allocations[at],
            (sim->nallocations - at) * sizeof *sim->allocations);
    sim->allocations[at] = made;
    sim->nallocations++;
    return SIM_OK;
}

void *sim_alloc(struct sim *sim, size_t bytes, const char *name) {
    const size_t alignment = PLACE_ALIGNMENT;
    void *memory = bytes > PTRDIFF_MAX - alignment
                       ? NULL
                       : aligned_alloc(alignment, (bytes + alignment) / alignment * alignment);
    if (memory == NULL) {
        (void)sim_no_memory(sim);
        return NULL;
    }
    memset(memory, TRAP, bytes);
    if (add_allocation(sim, memory, bytes, name == NULL ? "memory" : name, true) != SIM_OK) {
        free(memory);
        return NULL;
    }
    return memory;
}

bool sim_heap_ready(struct sim *sim) {
    if (sim->heap != NULL) {
        heap_tidy(sim->heap);
        return true;
    }
    const uint64_t limit = sim->heap_bytes != 0 ? sim->heap_bytes : HEAP_BYTES, bytes = limit * HEAP_ROOM;
    void *memory =
        aligned_alloc(PLACE_ALIGNMENT, (bytes + PLACE_ALIGNMENT - 1) / PLACE_ALIGNMENT * PLACE_ALIGNMENT);
    if (memory == NULL || add_allocation(sim, memory, bytes, "the heap of kernels", true) != SIM_OK) {
        free(memory);
        return false;
    }
    sim_device_only(sim, memory);
    sim->heap = heap_make((uintptr_t)memory, bytes, limit);
    return sim->heap != NULL;
}

bool sim_set_heap(struct sim *sim, size_t bytes) {
    if (sim->heap == NULL) {
        sim->heap_bytes = bytes;
    }
    return sim->heap == NULL;
}

void sim_device_only(struct sim *sim, const void *address) {
    /* CTAs without checks write unnoticed. */
    for (size_t i = 0; i < sim->nallocations && sim->options.checked_ctas == 0; i++) {
        if (sim->allocations[i].base == (uintptr_t)address && sim->allocations[i].lines != NULL) {
            lines_know_writes(sim->allocations[i].lines);
        }
    }
}

static int remove_allocation(struct sim *sim, void *address, bool is_freed) {
    for (size_t i = 0; i < sim->nallocations; i++) {
        struct allocation *allocation = &sim->allocations[i];
        if (allocation->base == (uintptr_t)address && (allocation->freed_bytes > 0) == is_freed) {
            if (allocation->owned) {
                free(address);
            }
            free(allocation->name);
            lines_free(allocation->lines);
            sim->nallocations--;
            memmove(allocation, allocation + 1, (sim->nallocations - i) * sizeof *allocation);
            return SIM_OK;
        }
    }
    return sim_fail(sim, SIM_BAD_ARGUMENT, "no allocation starts at this address");
}

int sim_free(struct sim *sim, void *address) {
    return remove_allocation(sim, address, false);
}

/* Like a stream-ordered memory pool: the next allocation of this size in the queue may get the memory while
 * earlier kernels still run. The access record stays with it, so that the checks see those kernels. */
int sim_free_in_queue(struct sim *sim, void *address) {
    size_t kept = 0, oldest = 0;
    for (size_t i = 0; i < sim->nallocations; i++) {
        struct allocation *allocation = &sim->allocations[i];
        oldest = allocation->freed_bytes > 0 && kept++ == 0 ? i : oldest;
        if (allocation->base == (uintptr_t)address && allocation->owned && allocation->bytes > 0) {
            allocation->freed_bytes = allocation->bytes;
            allocation->freed_in = order_selected(sim->order);
            allocation->bytes = 0;
            address = NULL;
        }
    }
    if (address != NULL) {
        return sim_fail(sim, SIM_BAD_ARGUMENT, "no allocation starts at this address");
    }
    return kept < MOST_FREED ? SIM_OK
                             : remove_allocation(sim, (void *)(uintptr_t)sim->allocations[oldest].base, true);
}

void *sim_alloc_in_queue(struct sim *sim, size_t bytes, const char *name) {
    for (size_t i = 0; bytes > 0 && i < sim->nallocations; i++) {
        struct allocation *allocation = &sim->allocations[i];
        if (allocation->freed_bytes == bytes && allocation->freed_in == order_selected(sim->order)) {
            allocation->bytes = bytes;
            allocation->freed_bytes = 0;
            return memset((void *)(uintptr_t)allocation->base, TRAP, bytes);
        }
    }
    return sim_alloc(sim, bytes, name);
}

int sim_register(struct sim *sim, void *address, size_t bytes, const char *name) {
    return add_allocation(sim, address, bytes, name == NULL ? "memory" : name, false);
}

int sim_unregister(struct sim *sim, void *address) {
    return remove_allocation(sim, address, false);
}
