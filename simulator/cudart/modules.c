/* Modules of fat binaries and PTX texts, their kernels and variables: loaded at their first use. */
#include "chip_properties.h"
#include "cudart/image/fatbin.h"
#include "registry.h"
#include "undeclared.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NVFP4_SIMULATE_PTX names a file that replaces every module, for trials with changed PTX.  False if there is
 * no such file; *text is NULL if there is no memory for it. */
static bool read_override(char **text, size_t *bytes) {
    const char *path = runtime_setting("NVFP4_SIMULATE_PTX");
    const size_t room = (size_t)16 << 20;
    FILE *file = path == NULL ? NULL : fopen(path, "rb");
    *text = file == NULL ? NULL : malloc(room);
    if (*text != NULL) {
        *bytes = fread(*text, 1, room, file);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return file != NULL;
}

/* False if memory is exhausted, so that a later call may try again. */
static bool load(struct sim *sim, struct binary *binary) {
    size_t bytes = 0;
    const char *why = "out of memory";
    char *override, *unpacked = NULL;
    bool overridden = read_override(&override, &bytes);
    const struct chip *chip = runtime_chip();
    const char *ptx = overridden ? override
                                 : fatbin_ptx(binary->data, (unsigned)(10 * chip->major + chip->minor), &bytes,
                                              &unpacked, &why);
    binary->module = ptx == NULL ? NULL : sim_load(sim, ptx, bytes);
    bool exhausted = ptx == NULL ? overridden : binary->module == NULL && sim_status(sim) == SIM_NO_MEMORY;
    binary->tried = !exhausted;
    if (binary->module == NULL) {
        const char *cause = ptx != NULL ? sim_message(sim)
                            : binary->relocatable
                                ? "relocatable device code (nvcc -rdc=true or -dc, which launches by "
                                  "the device need, too) is linked as machine code, which is not "
                                  "supported: compile without it, all kernels in one file"
                                : why;
        (void)snprintf(binary->why, sizeof binary->why, "%s", cause);
        (void)fprintf(stderr, "simulator: cannot load a module: %s\n", binary->why);
    }
    free(override);
    free(unpacked);
    return !exhausted;
}

struct sim_module *registry_module(struct sim *sim, void **handle, cudaError_t *error) {
    struct binary *binary = registry_binary(handle);
    if (!binary->tried && !load(sim, binary)) {
        *error = cudaErrorMemoryAllocation;
        return NULL;
    }
    *error = binary->module == NULL ? cudaErrorInvalidKernelImage : cudaSuccess;
    return binary->module;
}

const char *registry_why(void **handle) {
    return registry_binary(handle)->why;
}

struct kernel_entry *registry_loaded_kernel(struct sim *sim, void **handle, const char *name,
                                            cudaError_t *error) {
    struct sim_module *module = registry_module(sim, handle, error);
    struct kernel_entry *kernel = module == NULL ? NULL : registry_find_loaded(handle, name);
    if (kernel != NULL) {
        return kernel;
    }
    if (module == NULL || sim_parameter_count(module, name) < 0) {
        *error = module == NULL ? *error : cudaErrorSymbolNotFound;
        return NULL;
    }
    kernel = registry_add_kernel(handle, NULL, name);
    *error = kernel == NULL ? cudaErrorMemoryAllocation : cudaSuccess;
    return kernel;
}

bool registry_arguments(const void *host, const char *buffer, void **pointers, int room) {
    cudaError_t error;
    bool known = false;
    struct sim *sim = runtime_lock();
    if (sim == NULL) {
        return false;
    }
    const struct kernel_entry *kernel = registry_kernel(host);
    const struct sim_module *module = kernel == NULL ? NULL : registry_module(sim, kernel->binary, &error);
    if (module != NULL && sim_parameter_count(module, kernel->name) <= room) {
        for (int i = 0; i < sim_parameter_count(module, kernel->name); i++) {
            pointers[i] = (void *)(uintptr_t)(buffer + sim_parameter_offset(module, kernel->name, i));
        }
        known = true;
    }
    runtime_unlock();
    return known;
}

void *registry_variable(struct sim *sim, const void *host, size_t *bytes, cudaError_t *error) {
    const struct variable_entry *variable = registry_find_variable(host);
    *error = cudaErrorInvalidSymbol;
    struct sim_module *module = variable == NULL ? NULL : registry_module(sim, variable->binary, error);
    void *address = module == NULL ? NULL : sim_global(module, variable->name, bytes);
    if (address == NULL && *error != cudaErrorMemoryAllocation) {
        *error = cudaErrorInvalidSymbol;
    }
    return address;
}

bool registry_is_managed(struct sim *sim, const void *address) {
    for (struct variable_entry *v = registry_variables(); v != NULL; v = v->next) {
        size_t bytes = 0;
        cudaError_t error;
        const char *at =
            v->managed == NULL || *v->managed == NULL ? NULL : registry_variable(sim, v->host, &bytes, &error);
        if (at != NULL && (uintptr_t)address - (uintptr_t)at < bytes) {
            return true;
        }
    }
    return false;
}

void **registry_copy_arguments(const void *function, void **arguments, size_t *bytes) {
    struct sim *sim = runtime_lock();
    void **copy = NULL;
    cudaError_t error;
    if (sim == NULL) {
        return NULL;
    }
    const struct kernel_entry *kernel = registry_kernel(function);
    const struct sim_module *module = kernel == NULL ? NULL : registry_module(sim, kernel->binary, &error);
    const int count = module == NULL ? -1 : sim_parameter_count(module, kernel->name);
    if (count >= 0) {
        *bytes = 0;
        for (int i = 0; i < count; i++) {
            *bytes += sim_parameter_bytes(module, kernel->name, i);
        }
        copy = (void **)malloc((size_t)(count + 1) * sizeof *copy + *bytes);
    }
    char *value = copy == NULL ? NULL : (char *)(copy + count + 1);
    for (int i = 0; copy != NULL && i < count; i++) {
        const size_t each = sim_parameter_bytes(module, kernel->name, i);
        copy[i] = memcpy(value, arguments[i], each);
        value += each;
    }
    runtime_unlock();
    return copy;
}

/* Called before the host first uses a __managed__ variable, which it reads through a pointer. */
char __cudaInitModule(void **handle) {
    struct sim *sim = runtime_lock();
    for (struct variable_entry *variable = registry_variables(); sim != NULL && variable != NULL;
         variable = variable->next) {
        cudaError_t error;
        if (variable->binary == handle && variable->managed != NULL && *variable->managed == NULL) {
            *variable->managed = registry_variable(sim, variable->host, NULL, &error);
        }
        if (variable->binary == handle && variable->managed != NULL && *variable->managed == NULL) {
            (void)fprintf(stderr, "simulator: no module for the __managed__ variable %s: %s\n", variable->name,
                          registry_why(handle));
            exit(EXIT_FAILURE);
        }
    }
    if (sim != NULL) {
        runtime_unlock();
    }
    return 1;
}
