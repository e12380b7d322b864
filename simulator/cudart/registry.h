/* What nvcc's registration code has told: fat binaries, kernels by host address, variables. */
#ifndef SIM_CUDART_REGISTRY_H
#define SIM_CUDART_REGISTRY_H

#include <cuda_runtime_api.h>
#include <pthread.h>
#include <stdbool.h>

#include "sim.h"

#define DRIVER_VERSION 13020 /* as cudaDriverGetVersion counts; at least this */

struct kernel_entry {
    struct kernel_entry *next;
    const void *host;
    char *name;
    void **binary;
    size_t shared_limit; /* what cudaFuncSetAttribute has allowed */
    bool wide_clusters;  /* likewise: of more CTAs than every chip holds */
};

/* One simulator for the process, made at the first use; every call holds the lock.  NULL, and no lock: there is
 * no memory for it or for what was registered, and the call returns cudaErrorMemoryAllocation. */
struct sim *runtime_lock(void);
void runtime_unlock(void);
/* The module of a fat binary, loaded at its first use; NULL: it has no readable PTX (said on stderr), or there
 * is no memory for it now. */
struct sim_module *registry_module(void **binary, cudaError_t *error);
/* A module of a host program's own: PTX text that ends with a zero, or a fat binary; NULL: no memory.  It is
 * read at its first use and not needed afterwards. */
void **registry_load(const void *image);
/* A kernel of such a module, as an entry whose host address is its own. */
struct kernel_entry *registry_loaded_kernel(void **binary, const char *name, cudaError_t *error);
/* Where each of a kernel's arguments lies in a buffer of all of them. */
bool registry_arguments(const void *host, const char *buffer, void **pointers, int room);
/* Why a module was not loaded. */
const char *registry_why(void **binary);
struct kernel_entry *registry_kernel(const void *host);
void *registry_variable(const void *host, size_t *bytes, cudaError_t *error);
/* The compute capability of the chip where no variable names one. */
void runtime_default_major(int major);
int runtime_sms(void);
size_t runtime_memory_bytes(void);
/* Whether a fat binary has PTX for a target between sm_FIRST and sm_LAST. */
bool registry_has_ptx(unsigned first, unsigned last);
/* A variable that says something else: the run would not be what was asked for.  Ends the process. */
void refuse_setting(const char *variable, const char *value, const char *expected);
/* The simulator's number of a queue, for the launch or copy that follows; the lock is held. */
unsigned runtime_queue(struct sim *sim, cudaStream_t queue);
/* The host waits for a queue, or with `all` for every one. */
cudaError_t runtime_synchronize(cudaStream_t queue, bool all);
/* Prints findings that are new.  An error of a launch that ran makes this and every later call fail. */
void runtime_report(struct sim *sim);
/* cudaErrorLaunchFailure once a launch that ran had an error, which no call takes away, else cudaSuccess.
 * NVFP4_SIMULATE_GO_ON=1: always cudaSuccess. */
cudaError_t runtime_sticky(void);
/* `count` values of 1, 2 or 4 bytes. */
cudaError_t runtime_set(void *to, unsigned value, size_t bytes, size_t count, cudaStream_t queue);
/* Says on stderr what is not modelled; cudaErrorNotSupported. */
cudaError_t runtime_unmodelled(const char *what);
/* Keeps an error for cudaGetLastError, and gives it back; the error of a launch goes before any other, of calls
 * that only ask as well (CUDA runtime API: "may also return error codes from previous, asynchronous launches").
 */
cudaError_t runtime_result(cudaError_t error);

#endif
