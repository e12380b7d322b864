/* Binaries, kernels and variables that nvcc's generated code has registered, or that the program has loaded. */
#ifndef SIM_CUDART_REGISTRY_H
#define SIM_CUDART_REGISTRY_H

#include <stdbool.h>

#include "shim.h"

/* A fat binary or a PTX text, and its module once that is loaded. */
struct binary {
    void *self; /* its address is the handle that the program holds */
    struct binary *next;
    const char *data;
    struct sim_module *module;
    bool relocatable; /* of nvcc -rdc=true: units that a linker joined */
    bool tried;       /* an attempt to load it has been made */
    char why[400];    /* why it was not loaded */
};

struct variable_entry {
    struct variable_entry *next;
    const void *host;
    char *name;
    void **binary;
    void **managed; /* where the host's code finds the address of a __managed__ variable; NULL: it is not one */
};

struct binary *registry_binary(void **handle);
/* Adds a kernel; without a host address its entry is its own.  NULL: no memory. */
struct kernel_entry *registry_add_kernel(void **handle, const void *host, const char *name);
struct kernel_entry *registry_find_loaded(void **handle, const char *name); /* NULL: none */
struct variable_entry *registry_variables(void);                            /* newest first; NULL: none */
const struct variable_entry *registry_find_variable(const void *host);      /* NULL: none */
/* True if something was registered for which there was no memory. */
bool registry_lost(void);
/* True if a fat binary has PTX for a target between sm_FIRST and sm_LAST. */
bool registry_has_ptx(unsigned first, unsigned last);

#endif
