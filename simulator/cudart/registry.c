/* Registration, as nvcc's generated code calls it at load time. */
#include "registry.h"
#include "cudart/image/fatbin.h"
#include "undeclared.h"

#include <fatbinary_section.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lists, newest first.  Registration cannot return an error, so the first call that can reports a loss. */
static struct binary *binaries, lost_binary;
static struct kernel_entry *kernels;
static struct variable_entry *variables;
static bool lost;

bool registry_lost(void) {
    return lost;
}

bool registry_has_ptx(unsigned first, unsigned last) {
    for (const struct binary *binary = binaries; binary != NULL; binary = binary->next) {
        if (fatbin_has_ptx(binary->data, first, last)) {
            return true;
        }
    }
    return false;
}

struct binary *registry_binary(void **handle) {
    return (struct binary *)(void *)handle;
}

struct kernel_entry *registry_add_kernel(void **handle, const void *host, const char *name) {
    struct kernel_entry *kernel = malloc(sizeof *kernel);
    char *copy = strdup(name);
    if (kernel == NULL || copy == NULL) {
        free(kernel);
        free(copy);
        return NULL;
    }
    *kernel = (struct kernel_entry){kernels, host == NULL ? kernel : host, copy, handle, -1, false};
    kernels = kernel;
    return kernel;
}

struct kernel_entry *registry_kernel(const void *host) {
    struct kernel_entry *kernel = kernels;
    while (kernel != NULL && kernel->host != host) {
        kernel = kernel->next;
    }
    return kernel;
}

struct kernel_entry *registry_find_loaded(void **handle, const char *name) {
    struct kernel_entry *kernel = kernels;
    while (kernel != NULL &&
           (kernel->binary != handle || kernel->host != kernel || strcmp(kernel->name, name) != 0)) {
        kernel = kernel->next;
    }
    return kernel;
}

struct variable_entry *registry_variables(void) {
    return variables;
}

const struct variable_entry *registry_find_variable(const void *host) {
    const struct variable_entry *variable = variables;
    while (variable != NULL && variable->host != host) {
        variable = variable->next;
    }
    return variable;
}

static void **add_binary(const void *data) {
    struct binary *binary = calloc(1, sizeof *binary);
    if (binary == NULL) {
        return NULL;
    }
    binary->data = data;
    binary->next = binaries;
    binaries = binary;
    return &binary->self;
}

void **registry_load(const void *image) {
    const __fatBinC_Wrapper_t *wrapper = image;
    unsigned magic;
    memcpy(&magic, image, sizeof magic);
    return add_binary(magic == (unsigned)FATBINC_MAGIC ? (const void *)wrapper->data : image);
}

/* ---- what the generated code calls ---- */

void **__cudaRegisterFatBinary(void *wrapper) {
    const __fatBinC_Wrapper_t *given = wrapper;
    void **handle = add_binary(given->data);
    lost |= handle == NULL;
    if (handle == NULL) {
        return &lost_binary.self;
    }
    registry_binary(handle)->relocatable = given->version == FATBINC_LINK_VERSION;
    return handle;
}

void __cudaRegisterFatBinaryEnd(void **handle) {
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle) {
    (void)handle;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit,
                            void *tid, void *bid, void *block, void *grid, int *warp) {
    (void)device, (void)limit, (void)tid, (void)bid, (void)block, (void)grid, (void)warp;
    lost |= registry_add_kernel(handle, host, name) == NULL;
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size,
                       int constant, int global) {
    (void)device, (void)ext, (void)size, (void)constant, (void)global;
    struct variable_entry *variable = malloc(sizeof *variable);
    char *copy = strdup(name);
    if (variable == NULL || copy == NULL) {
        free(variable);
        free(copy);
        lost = true;
        return;
    }
    *variable = (struct variable_entry){variables, host, copy, handle, NULL};
    variables = variable;
}

void __cudaRegisterManagedVar(void **handle, void **host, char *device, const char *name, int ext, size_t size,
                              int constant, int global) {
    __cudaRegisterVar(handle, (char *)(void *)host, device, name, ext, size, constant, global);
    if (!lost) {
        variables->managed = host;
    }
}
