/* The library's interface: memory, modules, options. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#include "clock/timing.h"
#include "hazard/global/global_record.h"
#include "interp/interp.h"
#include "isa/opcodes.h"
#include "machine/findings.h"
#include "machine/machine.h"

#define TRAP       0xb5 /* what new memory holds */
#define MOST_FREED 64   /* allocations freed in a queue that are kept */

struct sim *sim_create(const struct sim_options *options) {
    struct sim *sim = calloc(1, sizeof *sim);
    if (sim == NULL) {
        return NULL;
    }
    if (options != NULL) {
        sim->options = *options;
    }
    if (sim->options.max_instructions == 0) {
        sim->options.max_instructions = (uint64_t)1 << 32;
    }
    if (sim->options.sms == 0) {
        sim->options.sms = 132;
    }
    sim->order = order_make();
    if (sim->order == NULL) {
        free(sim);
        return NULL;
    }
    (void)pthread_mutex_init(&sim->lock, NULL);
    if (sim->options.chip != NULL) {
        sim->timing =
            timing_make(sim->options.chip, sim->options.machine_code, sim->message, sizeof sim->message);
        if (sim->timing != NULL) {
            sim->timing->sim = sim;
        }
        if (sim->timing != NULL && sim->options.timeline != 0) {
            sim->timing->timeline = timeline_make();
            if (sim->timing->timeline == NULL) {
                timing_free(sim->timing);
                sim->timing = NULL;
                (void)snprintf(sim->message, sizeof sim->message, "out of memory for the timeline");
            }
        }
    }
    return sim;
}

void sim_destroy(struct sim *sim) {
    if (sim == NULL) {
        return;
    }
    for (struct sim_module *module = sim->modules, *next; module != NULL; module = next) {
        next = module->next;
        ptx_free(module->ptx);
        free(module);
    }
    for (size_t i = 0; i < sim->nallocations; i++) {
        if (sim->allocations[i].owned) {
            free((void *)(uintptr_t)sim->allocations[i].base);
        }
        free(sim->allocations[i].name);
        lines_free(sim->allocations[i].lines);
    }
    free(sim->allocations);
    free(sim->placements);
    shrinking_free(sim->shrinking);
    timing_free(sim->timing);
    order_free(sim->order);
    sim_clear_findings(sim);
    free(sim->findings);
    suppressions_free(sim);
    (void)pthread_mutex_destroy(&sim->lock);
    free(sim);
}

enum sim_status sim_status(const struct sim *sim) {
    return (enum sim_status)sim->status;
}

const char *sim_message(const struct sim *sim) {
    return sim->message;
}

bool sim_read_mode(const char *text, struct sim_options *options) {
    static const char *const names[] = {"eager", "late", "reverse", "random", "poison"};
    const int count = sizeof names / sizeof *names;
    size_t length = strcspn(text, ":");
    int mode = 0;
    while (mode < count && (strlen(names[mode]) != length || strncmp(text, names[mode], length) != 0)) {
        mode++;
    }
    uint64_t seed = 0;
    if (mode == count || (text[length] == ':' && mode != SIM_RANDOM)) {
        return false;
    }
    if (text[length] == ':') {
        char *end;
        seed = strtoull(text + length + 1, &end, 0);
        if (end == text + length + 1 || *end != '\0') {
            return false;
        }
    }
    options->mode = (enum sim_mode)mode;
    options->seed = seed;
    return true;
}

/* ---- memory ---- */

static int fail(struct sim *sim, int status, const char *what) {
    sim->status = status;
    (void)snprintf(sim->message, sizeof sim->message, "%s", what);
    return status;
}

static int no_memory(struct sim *sim) {
    return fail(sim, SIM_NO_MEMORY, "out of memory");
}

/* HW: allocations of a card begin at multiples of that (CUDA programming guide), and of a host's where they
 * may. */
#define PLACE_ALIGNMENT 256

/* Where the clock's caches see a range: one behind the other in the order in which they come, and where it was
 * if it has been there before. */
static bool place_range(struct sim *sim, uint64_t base, uint64_t bytes, uint64_t *place) {
    for (size_t i = 0; i < sim->nplacements; i++) {
        if (sim->placements[i].base == base && sim->placements[i].bytes == bytes) {
            *place = sim->placements[i].place;
            return true;
        }
    }
    if (sim->nplacements == sim->placements_room) {
        size_t room = sim->placements_room == 0 ? 32 : sim->placements_room * 2;
        struct placement *grown = realloc(sim->placements, room * sizeof *grown);
        if (grown == NULL) {
            return false;
        }
        sim->placements = grown;
        sim->placements_room = room;
    }
    const struct placement *last = sim->nplacements == 0 ? NULL : &sim->placements[sim->nplacements - 1];
    uint64_t end = last == NULL ? 0 : last->place + last->bytes;
    *place = (end + PLACE_ALIGNMENT - 1) / PLACE_ALIGNMENT * PLACE_ALIGNMENT;
    sim->placements[sim->nplacements++] = (struct placement){base, bytes, *place};
    return true;
}

static int add_allocation(struct sim *sim, void *address, size_t bytes, const char *name, bool owned) {
    uint64_t base = (uintptr_t)address;
    if (sim->nallocations == sim->allocations_room) {
        size_t room = sim->allocations_room == 0 ? 32 : sim->allocations_room * 2;
        struct allocation *grown = realloc(sim->allocations, room * sizeof *grown);
        if (grown == NULL) {
            return no_memory(sim);
        }
        sim->allocations = grown;
        sim->allocations_room = room;
    }
    size_t at = 0;
    while (at < sim->nallocations && sim->allocations[at].base < base) {
        at++;
    }
    if ((at < sim->nallocations && sim->allocations[at].base - base < bytes) ||
        (at > 0 && base - sim->allocations[at - 1].base < sim->allocations[at - 1].bytes)) {
        return fail(sim, SIM_BAD_ARGUMENT, "the range overlaps another allocation");
    }
    uint64_t place = base;
    if (sim->timing != NULL && !place_range(sim, base, bytes, &place)) {
        return no_memory(sim);
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
        return no_memory(sim);
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
        (void)no_memory(sim);
        return NULL;
    }
    memset(memory, TRAP, bytes);
    if (add_allocation(sim, memory, bytes, name == NULL ? "memory" : name, true) != SIM_OK) {
        free(memory);
        return NULL;
    }
    return memory;
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
    return fail(sim, SIM_BAD_ARGUMENT, "no allocation starts at this address");
}

int sim_free(struct sim *sim, void *address) {
    return remove_allocation(sim, address, false);
}

/* As a card's pool does: the next allocation in the queue may get the memory, while kernels before it still
 * run. Its record stays with it, so that the checks see them. */
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
        return fail(sim, SIM_BAD_ARGUMENT, "no allocation starts at this address");
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

/* ---- modules ---- */

struct sim_module *sim_load(struct sim *sim, const char *ptx, size_t bytes) {
    struct sim_module *module = calloc(1, sizeof *module);
    char message[MESSAGE_BYTES] = "";
    bool exhausted;
    if (module == NULL) {
        (void)no_memory(sim);
        return NULL;
    }
    struct module *m = module->ptx = ptx_parse(ptx, bytes, isa_opcodes, message, sizeof message, &exhausted);
    if (m == NULL) {
        (void)fail(sim, exhausted ? SIM_NO_MEMORY : SIM_BAD_PTX, message);
        free(module);
        return NULL;
    }
    m->text = malloc(bytes + 1);
    if (m->text == NULL) {
        (void)no_memory(sim);
        ptx_free(m);
        free(module);
        return NULL;
    }
    memcpy(m->text, ptx, bytes);
    m->text_bytes = bytes;
    bool known =
        add_allocation(sim, m->global_memory, m->global_bytes + 1, "module variables", false) == SIM_OK;
    if (!known ||
        add_allocation(sim, m->const_memory, m->const_bytes + 1, "module constants", false) != SIM_OK) {
        if (known) {
            (void)remove_allocation(sim, m->global_memory, false);
        }
        ptx_free(m);
        free(module);
        return NULL;
    }
    module->sim = sim;
    module->next = sim->modules;
    sim->modules = module;
    return module;
}

void *sim_global(struct sim_module *module, const char *name, size_t *bytes) {
    const struct module *m = module->ptx;
    for (uint32_t i = 0; i < m->nvariables; i++) {
        const struct variable *variable = m->variables[i];
        if (strcmp(variable->name, name) == 0 && variable->space != SP_SHARED) {
            if (bytes != NULL) {
                *bytes = variable->bytes;
            }
            return (variable->space == SP_CONST ? m->const_memory : m->global_memory) + variable->offset;
        }
    }
    return NULL;
}

const char *sim_kernel_name(const struct sim_module *module, size_t index) {
    for (uint32_t i = 0; i < module->ptx->nfunctions; i++) {
        const struct function *function = module->ptx->functions[i];
        if (function->is_entry && function->is_defined && index-- == 0) {
            return function->name;
        }
    }
    return NULL;
}

const char *sim_unreadable(const struct sim_module *module, const char *kernel) {
    const struct function *function = ptx_find_entry(module->ptx, kernel);
    return function == NULL ? NULL : function->unreadable;
}

int sim_parameter_count(const struct sim_module *module, const char *kernel) {
    const struct function *function = ptx_find_entry(module->ptx, kernel);
    return function == NULL ? -1 : (int)function->nparams;
}

size_t sim_parameter_bytes(const struct sim_module *module, const char *kernel, int index) {
    const struct function *function = ptx_find_entry(module->ptx, kernel);
    return function == NULL || index < 0 || (uint32_t)index >= function->nparams
               ? 0
               : function->params[index].bytes;
}

size_t sim_parameter_offset(const struct sim_module *module, const char *kernel, int index) {
    const struct function *function = ptx_find_entry(module->ptx, kernel);
    return function == NULL || index < 0 || (uint32_t)index >= function->nparams
               ? 0
               : function->params[index].offset;
}

/* ---- counters ---- */

const struct sim_counters *sim_counters(const struct sim *sim) {
    return &sim->counters;
}
