/* Functions of the driver by name, as programs ask for them. */
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <string.h>

#include "cudart/shim.h"
#include "cudart/undeclared.h"
#include "driver.h"

typedef void entry_point(void);

static entry_point *entry_named(const char *name) {
    static const struct {
        const char *name;
        entry_point *function;
    } calls[] = {
#define CALL(name) {#name, (entry_point *)name},
        DRIVER_CALLS(CALL)
#undef CALL
    };
    size_t length = strlen(name);
    const char *version = strrchr(name, '_'); /* accept cuMemAlloc_v2 and the like */
    if (version != NULL && (version[1] == 'v' || strcmp(version, "_ptsz") == 0)) {
        length = (size_t)(version - name);
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (strlen(calls[i].name) == length && strncmp(calls[i].name, name, length) == 0) {
            return calls[i].function;
        }
    }
    (void)fprintf(stderr, "simulator: %s is not modelled\n", name);
    return NULL;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **entry, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found) {
    entry_point *function = entry_named(symbol);
    (void)version;
    (void)flags;
    *entry = NULL;
    if (function != NULL) {
        memcpy(entry, &function, sizeof *entry); /* ISO C has no cast from function to object pointer */
    }
    if (found != NULL) {
        *found = function != NULL ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
    }
    return runtime_result(cudaSuccess);
}

CUresult cuGetProcAddress(const char *symbol, void **entry, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult *found) {
    (void)version;
    (void)flags;
    (void)cudaGetDriverEntryPointByVersion(symbol, entry, CUDA_VERSION, 0, NULL);
    if (found != NULL) {
        *found = *entry != NULL ? CU_GET_PROC_ADDRESS_SUCCESS : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    }
    return *entry != NULL ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* Deprecated since CUDA 13, but programs built for CUDA 12 call it. */
cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **entry, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *found) {
    return cudaGetDriverEntryPointByVersion(symbol, entry, CUDA_VERSION, flags, found);
}
