/* Queues, events, waits of the host, and copies and fills, which are ordered like launches (sim.h). */
#include "clock/timing.h"
#include "hazard/global/global_record.h"
#include "interp.h"

unsigned sim_queue_create(struct sim *sim, int blocking) {
    uint32_t queue = order_queue(sim->order, blocking != 0);
    if (queue == 0) {
        (void)sim_no_memory(sim);
    }
    return queue;
}

void sim_queue_destroy(struct sim *sim, unsigned queue) {
    order_queue_ends(sim->order, queue);
}

void sim_queue_select(struct sim *sim, unsigned queue) {
    order_select(sim->order, queue);
}

int sim_queue_synchronize(struct sim *sim, unsigned queue) {
    return order_synchronize(sim->order, queue) ? SIM_OK : sim_no_memory(sim);
}

int sim_queues_synchronize(struct sim *sim) {
    return order_synchronize_all(sim->order) ? SIM_OK : sim_no_memory(sim);
}

struct sim_event {
    struct known known;
};

struct sim_event *sim_event_record(struct sim *sim, unsigned queue) {
    struct known *event = order_record(sim->order, queue);
    if (event == NULL) {
        (void)sim_no_memory(sim);
    }
    return (struct sim_event *)(void *)event;
}

int sim_queue_wait(struct sim *sim, unsigned queue, const struct sim_event *event) {
    return order_queue_waits(sim->order, queue, &event->known) ? SIM_OK : sim_no_memory(sim);
}

int sim_event_synchronize(struct sim *sim, const struct sim_event *event) {
    return order_host_waits(sim->order, &event->known) ? SIM_OK : sim_no_memory(sim);
}

void sim_event_free(struct sim_event *event) {
    order_event_free(event == NULL ? NULL : &event->known);
}

/* ---- copies ---- */

bool sim_has(const struct sim *sim, const void *address, size_t bytes) {
    struct worker worker = {.launch = NULL};
    return find_range(sim, &worker, (uintptr_t)address, bytes);
}

const char *sim_name_of(const struct sim *sim, const void *address, size_t *offset, size_t *bytes) {
    struct worker worker = {.launch = NULL};
    const struct allocation *found = allocation_of(sim, &worker, (uintptr_t)address, 1);
    if (found != NULL) {
        *offset = (uintptr_t)address - found->base;
        *bytes = found->bytes;
    }
    return found == NULL ? NULL : found->name;
}

static int no_range(struct sim *sim) {
    return sim_fail(sim, SIM_BAD_ARGUMENT, "the range lies outside of every allocation");
}

/* Checks and records a copy in the selected queue; host memory that is not registered is left out. */
static int submit(struct sim *sim, const char *name, const void *to, const void *from, size_t bytes) {
    struct launch launch = {.sim = sim, .name = name};
    if (!order_begin(sim->order, &launch.order, name, NULL, false, false)) {
        return sim_no_memory(sim);
    }
    if (!sim->options.no_checks) {
        lines_copied(&launch, (uintptr_t)from, bytes, false);
        lines_copied(&launch, (uintptr_t)to, bytes, true);
    }
    bool done = order_end(sim->order, &launch.order) && !atomic_load(&launch.no_memory);
    return done ? SIM_OK : sim_no_memory(sim);
}

static int copy(struct sim *sim, const char *name, void *to, const void *from, size_t bytes) {
    int status = submit(sim, name, to, from, bytes);
    if (status == SIM_OK) {
        memmove(to, from, bytes);
    }
    return status;
}

int sim_write(struct sim *sim, void *to, const void *from, size_t bytes) {
    return sim_has(sim, to, bytes) ? copy(sim, "copy to the device", to, from, bytes) : no_range(sim);
}

int sim_read(struct sim *sim, void *to, const void *from, size_t bytes) {
    return sim_has(sim, from, bytes) ? copy(sim, "copy to the host", to, from, bytes) : no_range(sim);
}

int sim_copy(struct sim *sim, void *to, const void *from, size_t bytes) {
    return copy(sim, "copy", to, from, bytes);
}

int sim_fill(struct sim *sim, void *to, int value, size_t bytes) {
    int status = sim_has(sim, to, bytes) ? submit(sim, "fill", to, NULL, bytes) : no_range(sim);
    if (status == SIM_OK) {
        memset(to, value, bytes);
        if (sim->timing != NULL) {
            time_filled(sim->timing, (uintptr_t)to, bytes);
        }
    }
    return status;
}
