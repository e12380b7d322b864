/* Lays out a launch before it runs: checks its shape against the chip's limits, places the functions' registers
 * and frames and the shared variables, copies the parameters. */
#include <stdio.h>
#include <stdlib.h>

#include "interp.h"

#define MAX_SHARED_WINDOW (1u << 21) /* stop adding up here: far over any limit */
/* Per warp, for the kernel and all functions it may call. */
#define MAX_REGISTER_BYTES ((uint64_t)128 << 20)
#define MAX_LOCAL_BYTES    ((uint64_t)4 << 20) /* per thread */
#define MAX_THREADS        1024
#define MAX_NESTING        1000                /* longest chain of calls in the call graph without recursion */
#define RECURSION_DEPTH    1000                /* most calls inside each other with it */
#define RECURSION_BYTES    ((uint32_t)1 << 18) /* local memory per thread for frames of inner activations */

int launch_refuse(struct sim *sim, int status, const char *kernel, const char *why) {
    if (status != SIM_RUN_ERROR) {
        sim_refuse(sim, kernel, why);
    }
    sim->status = status;
    (void)snprintf(sim->message, sizeof sim->message, "%s (kernel %s)", why, kernel);
    return status;
}

static const char *no_body(const char *name) {
    static const struct {
        const char *start, *why;
    } known[] = {{"cudaGetParameterBuffer", "it launches kernels: launches by the device are not modelled"},
                 {"cudaLaunchDevice", "it launches kernels: launches by the device are not modelled"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strncmp(name, known[i].start, strlen(known[i].start)) == 0) {
            return known[i].why;
        }
    }
    return "it calls a function without a body";
}

static const char *place_function(struct launch *launch, const struct function *function, uint8_t *open,
                                  uint32_t depth);

/* Places every function that a pointer may reach. */
static const char *place_targets(struct launch *launch, uint8_t *open, uint32_t depth) {
    const struct module *module = launch->module;
    launch->recursive = true; /* which of them call each other is not known */
    for (uint32_t i = 0; i < module->nfunctions; i++) {
        const struct function *target = module->functions[i];
        if (!target->address_taken || target->is_entry || !target->is_defined || target->unreadable != NULL) {
            continue;
        }
        const char *wrong = place_function(launch, target, open, depth);
        if (wrong != NULL) {
            return wrong;
        }
    }
    return NULL;
}

/* Places a function and everything it calls; open[] marks those on the current call path, which reveals
 * recursion. NULL, or the reason for a refusal. */
static const char *place_function(struct launch *launch, const struct function *function, uint8_t *open,
                                  uint32_t depth) {
    launch->recursive |= open[function->index] != 0;
    launch->uses_heap |= function->builtin == BUILTIN_MALLOC || function->builtin == BUILTIN_FREE;
    launch->call_depth = depth > launch->call_depth ? depth : launch->call_depth;
    if (function->unreadable != NULL) {
        return function->unreadable; /* refused only if it is called */
    }
    if (launch->reg_base[function->index] != UINT32_MAX || !function->is_defined) {
        return function->is_defined || function->builtin != BUILTIN_NONE ? NULL : no_body(function->name);
    }
    if (depth > MAX_NESTING ||
        (uint64_t)launch->reg_bytes + launch->pred_bytes + function->reg_bytes + function->pred_bytes >
            MAX_REGISTER_BYTES ||
        (uint64_t)launch->local_bytes + function->local_bytes > MAX_LOCAL_BYTES) {
        return "its functions have more registers, local memory or nested calls than the simulator has room "
               "for";
    }
    launch->reg_base[function->index] = launch->reg_bytes;
    launch->pred_base[function->index] = launch->pred_bytes;
    launch->local_base[function->index] = launch->local_bytes;
    launch->reg_bytes += function->reg_bytes;
    launch->pred_bytes += round_up(function->pred_bytes, 16);
    launch->local_bytes += round_up(function->local_bytes, 16);
    for (uint32_t pc = function->first_pc; pc < function->end_pc; pc++) {
        const struct insn *insn = &launch->module->code[pc];
        launch->uses_wgmma |= insn->reg_async;
        launch->asynchronous |=
            insn->cls == CL_MBARRIER || insn->cls == CL_ASYNC_COPY || insn->cls == CL_TENSOR;
    }
    open[function->index] = 1;
    for (uint32_t i = 0; i < function->ncalls; i++) {
        const char *wrong = place_function(launch, function->calls[i], open, depth + 1);
        if (wrong != NULL) {
            return wrong;
        }
    }
    const char *wrong = function->calls_pointers ? place_targets(launch, open, depth + 1) : NULL;
    open[function->index] = 0;
    return wrong;
}

/* Finds out which rows of registers hold 64 bits, and adds room for frames of inner activations. */
static bool place_recursion(struct launch *launch) {
    const struct module *module = launch->module;
    launch->call_depth = RECURSION_DEPTH;
    launch->local_stack = launch->local_bytes;
    launch->local_bytes += RECURSION_BYTES;
    launch->wide_row = calloc(launch->reg_bytes / ROW32 + 1, 1);
    for (uint32_t i = 0; launch->wide_row != NULL && i < module->nfunctions; i++) {
        const struct function *function = module->functions[i];
        uint8_t *wide =
            launch->wide_row + (launch->reg_base[i] == UINT32_MAX ? 0 : launch->reg_base[i] / ROW32);
        if (launch->reg_base[i] == UINT32_MAX) {
            continue;
        }
        wide[0] = 1; /* discarded results */
        for (uint32_t pc = function->first_pc; pc < function->end_pc; pc++) {
            const struct insn *insn = &module->code[pc];
            for (uint32_t j = 0; j < insn->nop; j++) {
                if (insn->op[j].base == BASE_REGS && insn->op[j].wide) {
                    wide[insn->op[j].off / ROW32] = 1;
                }
            }
        }
        for (uint32_t j = 0; j < function->nspecials; j++) {
            if (function->specials[j].width == SPECIAL_64) {
                wide[function->specials[j].off / ROW32] = 1;
            }
        }
    }
    return launch->wide_row != NULL;
}

/* Places the static shared variables that the placed functions use, in the order of declaration. */
static void place_shared(struct launch *launch) {
    const struct module *module = launch->module;
    launch->shared_floor = SHARED_RESERVED;
    for (uint32_t i = 0; i < module->nfunctions; i++) {
        const struct function *function = module->functions[i];
        for (uint32_t j = 0; launch->reg_base[i] != UINT32_MAX && j < function->nspecials; j++) {
            if (function->specials[j].kind == SR_RESERVED_SMEM_1) {
                launch->shared_floor = SHARED_RESERVED - SHARED_SCRATCH;
            }
            if (function->specials[j].variable != NULL) {
                launch->shared_at[function->specials[j].variable->index] = 1;
            }
        }
    }
    uint32_t end = SHARED_RESERVED;
    for (uint32_t i = 0; i < module->nvariables; i++) {
        const struct variable *variable = module->variables[i];
        if (launch->shared_at[i] != 0 && end < MAX_SHARED_WINDOW) {
            launch->shared_at[i] = (uint32_t)round_up(end, variable->align);
            end = launch->shared_at[i] + (uint32_t)variable->bytes;
        }
    }
    launch->static_shared = end - SHARED_RESERVED;
}

/* HW: CUDA programming guide, technical specifications per compute capability (9.0, 10.0). */
static const uint32_t most_ctas[] = {INT32_MAX, UINT16_MAX, UINT16_MAX}, most_block_z = 64;

static uint64_t at_most(uint64_t value, uint64_t limit) {
    return value < limit ? value : limit;
}

static int check_shape(struct sim *sim, struct launch *launch, const struct sim_launch_attributes *a) {
    const struct function *kernel = launch->kernel;
    uint64_t threads = 1, clusters = 1, ctas = 1;
    for (int i = 0; i < 3; i++) {
        launch->grid[i] = a->grid[i];
        launch->block[i] = a->block[i];
        launch->cluster[i] = a->cluster[i] != 0        ? a->cluster[i]
                             : kernel->cluster[i] != 0 ? kernel->cluster[i]
                                                       : 1;
        launch->clustered |= a->cluster[i] != 0 || kernel->cluster[i] != 0;
        if (launch->grid[i] == 0 || launch->block[i] == 0 || launch->grid[i] % launch->cluster[i] != 0) {
            return launch_refuse(
                sim, SIM_BAD_ARGUMENT, launch->name,
                "a dimension of grid, block or cluster is zero, or the cluster does not divide the grid");
        }
        if (launch->grid[i] > most_ctas[i]) {
            return launch_refuse(sim, SIM_BAD_ARGUMENT, launch->name,
                                 "a grid beyond 2147483647 x 65535 x 65535");
        }
        launch->clusters[i] = launch->grid[i] / launch->cluster[i];
        threads *= at_most(launch->block[i], 2 * MAX_THREADS); /* capped, so that the product cannot overflow */
        clusters *= launch->clusters[i];
        ctas *= at_most(launch->cluster[i], 2 * MAX_CLUSTER);
    }
    uint64_t most = kernel->maxntid[0] != 0
                        ? (uint64_t)kernel->maxntid[0] * kernel->maxntid[1] * kernel->maxntid[2]
                        : MAX_THREADS;
    if (threads > most || threads > MAX_THREADS) {
        return launch_refuse(sim, SIM_BAD_ARGUMENT, launch->name,
                             "more threads in a block than the kernel or chip allows");
    }
    if (launch->block[2] > most_block_z) {
        return launch_refuse(sim, SIM_BAD_ARGUMENT, launch->name, "a block of more than 64 threads in z");
    }
    bool small = launch->module->sm >= 120; /* HW: Blackwell tuning guide: 8, 16 on a B200 */
    if (ctas > (small ? MAX_CLUSTER_SM_120 : MAX_CLUSTER)) {
        return launch_refuse(sim, SIM_BAD_ARGUMENT, launch->name,
                             small ? "more than 8 CTAs in a cluster" : "more than 16 CTAs in a cluster");
    }
    launch->threads = (uint32_t)threads;
    launch->warps = (uint32_t)(threads + LANES - 1) / LANES;
    launch->ncluster = clusters;
    launch->dynamic_shared = a->dynamic_shared_bytes;
    return SIM_OK;
}

/* The message has the number of parameters and the sizes of the first SHOWN. */
static int refuse_arguments(struct sim *sim, const struct launch *launch, size_t given) {
    enum { SHOWN = 16 };
    const struct function *kernel = launch->kernel;
    char why[256];
    int length = snprintf(why, sizeof why, "the wrong number of arguments: %zu given, %u expected", given,
                          kernel->nparams);
    for (uint32_t i = 0; i < kernel->nparams && i < SHOWN; i++) {
        length += snprintf(why + length, sizeof why - (size_t)length, "%s%u",
                           i == 0 ? ", bytes of each: " : ", ", kernel->params[i].bytes);
    }
    if (kernel->nparams > SHOWN) {
        (void)snprintf(why + length, sizeof why - (size_t)length, ", ...");
    }
    return launch_refuse(sim, SIM_BAD_ARGUMENT, launch->name, why);
}

static int copy_parameters(struct sim *sim, struct launch *launch, const struct sim_launch_attributes *a) {
    const struct function *kernel = launch->kernel;
    if (a->argument_count != kernel->nparams || (a->arguments == NULL && kernel->nparams > 0)) {
        return refuse_arguments(sim, launch, a->argument_count);
    }
    launch->param_bytes = kernel->param_bytes;
    launch->params = aligned_alloc(128, round_up(kernel->param_bytes + 128, 128));
    if (launch->params == NULL) {
        return launch_refuse(sim, SIM_NO_MEMORY, launch->name, "out of memory");
    }
    memset(launch->params, 0, round_up(kernel->param_bytes + 128, 128));
    for (uint32_t i = 0; i < kernel->nparams; i++) {
        memcpy(launch->params + kernel->params[i].offset, a->arguments[i], kernel->params[i].bytes);
    }
    return SIM_OK;
}

const char *launch_place(struct launch *launch, bool *exhausted) {
    uint32_t n = launch->module->nfunctions;
    uint8_t *open = calloc(n + 1, 1);
    launch->reg_base = malloc((n + 1) * sizeof(uint32_t));
    launch->pred_base = calloc(n + 1, sizeof(uint32_t));
    launch->local_base = calloc(n + 1, sizeof(uint32_t));
    launch->shared_at = calloc(launch->module->nvariables + 1, sizeof(uint32_t));
    *exhausted = open == NULL || launch->reg_base == NULL || launch->pred_base == NULL ||
                 launch->local_base == NULL || launch->shared_at == NULL;
    if (*exhausted) {
        free(open);
        return "out of memory";
    }
    memset(launch->reg_base, 0xff, (n + 1) * sizeof(uint32_t));
    const char *wrong = place_function(launch, launch->kernel, open, 0);
    free(open);
    if (wrong == NULL) {
        place_shared(launch);
    }
    return wrong;
}

static int lay_out(struct sim *sim, struct launch *launch) {
    bool exhausted;
    const char *wrong = launch_place(launch, &exhausted);
    if (wrong != NULL) {
        return launch_refuse(sim, exhausted ? SIM_NO_MEMORY : SIM_NO_KERNEL, launch->name, wrong);
    }
    if ((launch->recursive && !place_recursion(launch)) || (launch->uses_heap && !sim_heap_ready(sim))) {
        return launch_refuse(sim, SIM_NO_MEMORY, launch->name, "out of memory");
    }
    /* Dynamic shared memory follows the static variables, aligned as declared. */
    uint32_t align = 16;
    if (launch->module->dynamic_shared >= 0) {
        align = launch->module->variables[launch->module->dynamic_shared]->align;
    }
    launch->static_shared = (uint32_t)round_up(launch->static_shared, align < 16 ? 16 : align);
    uint64_t bytes = (uint64_t)launch->static_shared + launch->dynamic_shared;
    bool small = launch->module->sm >= 120; /* HW: compute capability 12.x (CUDA C++ Programming Guide) */
    if (bytes > (small ? MAX_SHARED_SM_120 : MAX_SHARED)) {
        return launch_refuse(sim, SIM_BAD_ARGUMENT, launch->name,
                             small ? "more than 99 KB of shared memory in a CTA"
                                   : "more than 227 KB of shared memory in a CTA");
    }
    launch->shared_bytes = (uint32_t)bytes;
    return SIM_OK;
}

int launch_lay_out(struct sim *sim, struct launch *launch, const struct sim_launch_attributes *attributes) {
    int status = check_shape(sim, launch, attributes);
    status = status == SIM_OK ? lay_out(sim, launch) : status;
    return status == SIM_OK ? copy_parameters(sim, launch, attributes) : status;
}

void launch_free(struct launch *launch) {
    free(launch->reg_base);
    free(launch->pred_base);
    free(launch->local_base);
    free(launch->wide_row);
    free(launch->shared_at);
    free(launch->params);
}
