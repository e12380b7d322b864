#include "torch_shim.h"

#include <dlfcn.h>
#include <stddef.h>

struct torch_shim torch_shim;

/* Python loads torch's libraries into a scope of their own, so each is opened by name; RTLD_NOLOAD finds only
 * those that are there. */
static void *loaded(const char *library) {
    return dlopen(library, RTLD_NOLOAD | RTLD_LAZY);
}

static void *function_of(void *library, const char *name) {
    return library != NULL ? dlsym(library, name) : NULL;
}

static int32_t (*delete_stable_ivalue)(void *);

static void delete_by_torch(void *box) {
    (void)delete_stable_ivalue(box);
}

/* torch 2.13 has a function of its own; before, the box is one of C++'s operator new. */
static const char *load_delete_box(void *torch) {
    *(void **)&delete_stable_ivalue = function_of(torch, "torch_delete_stable_ivalue");
    torch_shim.delete_box = delete_by_torch;
    if (delete_stable_ivalue == NULL) {
        *(void **)&torch_shim.delete_box = function_of(loaded("libstdc++.so.6"), "_ZdlPv");
    }
    return torch_shim.delete_box != NULL ? NULL : "torch_delete_stable_ivalue";
}

static const char *load_dtypes(void *torch) {
    static const struct {
        enum torch_dtype dtype;
        const char *function;
    } dtypes[] = {
#define X(dtype, name, bytes) {dtype, "aoti_torch_dtype_" name},
        TORCH_DTYPES(X)
#undef X
        /* Their names in torch 2.11. */
        {DTYPE_float4_e2m1fn_x2, "torch_dtype_float4_e2m1fn_x2"},
        {DTYPE_float8_e8m0fnu, "torch_dtype_float8_e8m0fnu"},
    };
    for (int i = 0; i < DTYPES; i++) {
        torch_shim.dtypes[i] = -1;
    }
    for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) {
        int32_t (*number)(void);
        *(void **)&number = function_of(torch, dtypes[i].function);
        if (number != NULL) {
            torch_shim.dtypes[dtypes[i].dtype] = number();
        }
    }
    for (int i = 0; i < DTYPES_NEEDED; i++) {
        if (torch_shim.dtypes[i] < 0) {
            return dtypes[i].function;
        }
    }
    return NULL;
}

const char *torch_shim_load(void) {
    void *torch = loaded("libtorch_cpu.so");
#define X(result, name, parameters)                                                                            \
    *(void **)&torch_shim.name = function_of(torch, #name);                                                    \
    if (torch_shim.name == NULL) {                                                                             \
        return #name;                                                                                          \
    }
    TORCH_FUNCTIONS(X)
#undef X
    *(void **)&torch_shim.current_queue =
        function_of(loaded("libtorch_cuda.so"), "aoti_torch_get_current_cuda_stream");
    torch_shim.cpu = torch_shim.aoti_torch_device_type_cpu();
    torch_shim.cuda = torch_shim.aoti_torch_device_type_cuda();
    const char *missing = load_delete_box(torch);
    return missing != NULL ? missing : load_dtypes(torch);
}
