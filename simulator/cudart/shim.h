/* Shared by the files of the CUDA runtime shim: the process's simulator, kernels, queues, errors, settings. */
#ifndef SIM_CUDART_SHIM_H
#define SIM_CUDART_SHIM_H

#include <cuda_runtime_api.h>
#include <stdbool.h>

#include "sim.h"

#define DRIVER_VERSION 13020 /* the lowest version that the driver reports, as cudaDriverGetVersion counts */

/* ---- the simulator of the process (process_sim.c) ---- */

/* Locks and returns the one simulator of the process, made at the first call.  NULL, and no lock, if there is
 * no memory for it or for what was registered; the caller then returns cudaErrorMemoryAllocation. */
struct sim *runtime_lock(void);
void runtime_unlock(void);
#define RETURN_IF_NO_MEMORY(sim)                                                                               \
    do {                                                                                                       \
        if ((sim) == NULL) {                                                                                   \
            return runtime_result(cudaErrorMemoryAllocation);                                                  \
        }                                                                                                      \
    } while (0)
/* Prints new findings.  An error in a launch that ran makes this and every later call fail. */
void runtime_report(struct sim *sim);
/* The error that every call returns once a launch has failed: cudaErrorAssert after a failed device assertion,
 * else cudaErrorLaunchFailure.  cudaSuccess before, and always with NVFP4_SIMULATE_GO_ON=1. */
cudaError_t runtime_sticky(void);

/* ---- kernels and modules (registry.c, modules.c) ---- */

struct kernel_entry {
    struct kernel_entry *next;
    const void *host; /* the address that launches name; for a kernel the program has loaded, this entry */
    char *name;
    void **binary;
    int shared_limit;   /* dynamic shared memory that cudaFuncSetAttribute has allowed; -1: it was not called */
    bool wide_clusters; /* cudaFuncSetAttribute has allowed more CTAs in a cluster than the portable number */
};

struct kernel_entry *registry_kernel(const void *host); /* NULL: none */
/* A module that the program loads itself: PTX text that ends with a zero, or a fat binary; NULL: no memory.  It
 * is read at its first use, after which `image` may go. */
void **registry_load(const void *image);
/* The module of a binary, loaded at its first use.  NULL with *error: it has no readable PTX (said on stderr),
 * or there is no memory for it now. */
struct sim_module *registry_module(struct sim *sim, void **binary, cudaError_t *error);
/* Why a module was not loaded. */
const char *registry_why(void **binary);
/* A kernel by name of a module that the program has loaded. */
struct kernel_entry *registry_loaded_kernel(struct sim *sim, void **binary, const char *name,
                                            cudaError_t *error);
/* Sets a pointer to each argument of a kernel in a buffer that holds all of them. */
bool registry_arguments(const void *host, const char *buffer, void **pointers, int room);
/* A copy of a kernel's arguments in one block, pointers first; NULL: no such kernel, or no memory. */
void **registry_copy_arguments(const void *function, void **arguments, size_t *bytes);
/* Address and size of a registered variable. */
void *registry_variable(struct sim *sim, const void *host, size_t *bytes, cudaError_t *error);
/* True if a __managed__ variable holds the byte. */
bool registry_is_managed(struct sim *sim, const void *address);

/* ---- the chip (chip_properties.c) ---- */

/* Sets the compute capability of the chip for when no variable names one. */
void runtime_default_major(int major);
int runtime_sms(void);
size_t runtime_memory_bytes(void);

/* ---- settings (settings.c) ---- */

/* The value of a variable; NULL if it is unset or empty. */
const char *runtime_setting(const char *variable);
/* Ends the process with a message: the value of a variable is not one of the expected ones. */
void refuse_setting(const char *variable, const char *value, const char *expected);

/* ---- queues and memory (runtime/) ---- */

/* The simulator's number of a queue, for the launch or copy that follows; the lock is held. */
unsigned runtime_queue(struct sim *sim, cudaStream_t queue);
/* Makes the host wait for a queue, or for all of them. */
cudaError_t runtime_synchronize(cudaStream_t queue, bool all);
/* Sets `count` values of 1, 2 or 4 bytes. */
cudaError_t runtime_set(void *to, unsigned value, size_t bytes, size_t count, cudaStream_t queue);

/* ---- errors (errors.c) ---- */

/* Prints that a function is not modelled; returns cudaErrorNotSupported. */
cudaError_t runtime_unmodelled(const char *what);
/* Keeps an error for cudaGetLastError and returns it.  The error of a failed launch takes precedence, also in
 * calls that only query (CUDA runtime API: "error codes from previous, asynchronous launches"). */
cudaError_t runtime_result(cudaError_t error);

struct error_text {
    cudaError_t error;
    const char *name, *driver_name; /* driver_name: of the driver's error of this number; NULL: it has none */
    const char *text;               /* in both APIs */
};

const struct error_text *runtime_error_text(int number); /* NULL: not known */

#endif
