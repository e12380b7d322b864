/* Loading PTX modules, and what they contain: variables, kernels, parameters (sim.h). */
#include <stdlib.h>
#include <string.h>

#include "interp.h"
#include "isa/opcodes.h"

struct sim_module *sim_load(struct sim *sim, const char *ptx, size_t bytes) {
    struct sim_module *module = calloc(1, sizeof *module);
    char message[MESSAGE_BYTES] = "";
    bool exhausted;
    if (module == NULL) {
        (void)sim_no_memory(sim);
        return NULL;
    }
    struct module *m = module->ptx = ptx_parse(ptx, bytes, isa_opcodes, message, sizeof message, &exhausted);
    if (m == NULL) {
        (void)sim_fail(sim, exhausted ? SIM_NO_MEMORY : SIM_BAD_PTX, message);
        free(module);
        return NULL;
    }
    m->text = malloc(bytes + 1);
    if (m->text == NULL) {
        (void)sim_no_memory(sim);
        ptx_free(m);
        free(module);
        return NULL;
    }
    memcpy(m->text, ptx, bytes);
    m->text_bytes = bytes;
    bool known = sim_register(sim, m->global_memory, m->global_bytes + 1, "module variables") == SIM_OK;
    if (!known || sim_register(sim, m->const_memory, m->const_bytes + 1, "module constants") != SIM_OK) {
        if (known) {
            (void)sim_unregister(sim, m->global_memory);
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

static unsigned threads_of(const uint32_t bound[3]) {
    return bound[0] * bound[1] * bound[2];
}

bool sim_kernel_needs(const struct sim_module *module, const char *kernel, struct sim_kernel_needs *needs) {
    const struct function *function = ptx_find_entry(module->ptx, kernel);
    struct launch launch = {.module = module->ptx, .kernel = function, .name = kernel};
    bool exhausted, placed = function != NULL && launch_place(&launch, &exhausted) == NULL;
    if (placed) {
        *needs = (struct sim_kernel_needs){
            .target = module->ptx->sm,
            .shared_bytes = launch.static_shared,
            .local_bytes = launch.local_bytes,
            .constant_bytes = module->ptx->const_bytes,
            .threads = threads_of(function->maxntid[0] != 0 ? function->maxntid : function->reqntid),
            .ctas_of_sm = function->min_ctas,
            .most_registers = function->maxnreg,
            .registers = function->registers};
    }
    launch_free(&launch);
    return placed;
}

int sim_parameter_count(const struct sim_module *module, const char *kernel) {
    const struct function *function = ptx_find_entry(module->ptx, kernel);
    return function == NULL ? -1 : (int)function->nparams;
}

static struct parameter parameter_of(const struct sim_module *module, const char *kernel, int index) {
    const bool has = index >= 0 && index < sim_parameter_count(module, kernel);
    return has ? ptx_find_entry(module->ptx, kernel)->params[index] : (struct parameter){0};
}

size_t sim_parameter_bytes(const struct sim_module *module, const char *kernel, int index) {
    return parameter_of(module, kernel, index).bytes;
}

size_t sim_parameter_offset(const struct sim_module *module, const char *kernel, int index) {
    return parameter_of(module, kernel, index).offset;
}
