/* Registration, as nvcc's generated code calls it at load time. */
#include "registry.h"
#include "chip_properties.h"
#include "cudart/image/fatbin.h"
#include "outcome.h"
#include "undeclared.h"

#include <fatbinary_section.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lists, newest first; the registration code has no way to hear of a failure, so the first call tells of it. */
static struct binary {
    void *self; /* the handle is this member's address */
    struct binary *next;
    const char *data; /* a fat binary, or PTX text */
    struct sim_module *module;
    bool tried;
    char why[400]; /* it was not loaded */
} *binaries, lost_binary;
static struct kernel_entry *kernels;
static struct variable_entry {
    struct variable_entry *next;
    const void *host;
    char *name;
    void **binary;
} *variables;
static bool lost; /* something was registered that there was no memory for */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim *the_sim;
static size_t reported;

bool registry_has_ptx(unsigned first, unsigned last) {
    for (const struct binary *binary = binaries; binary != NULL; binary = binary->next) {
        if (fatbin_has_ptx(binary->data, first, last)) {
            return true;
        }
    }
    return false;
}

void refuse_setting(const char *variable, const char *value, const char *expected) {
    (void)fprintf(stderr, "simulator: %s is '%s'; expected %s\n", variable, value, expected);
    exit(EXIT_FAILURE);
}

static void read_options(struct sim_options *options) {
    const char *mode = getenv("NVFP4_SIMULATE_MODE"), *checks = getenv("NVFP4_SIMULATE_CHECKS");
    if (mode != NULL && mode[0] != '\0' && !sim_read_mode(mode, options)) {
        refuse_setting("NVFP4_SIMULATE_MODE", mode, SIM_MODES);
    }
    options->no_checks = checks != NULL && strcmp(checks, "0") == 0;
    options->sms = (unsigned)runtime_sms();
    const char *chip = getenv("NVFP4_SIMULATE_TIME");
    const char *values = getenv("NVFP4_SIMULATE_VALUES");
    options->no_values = values != NULL && strcmp(values, "0") == 0;
    options->chip = chip != NULL && chip[0] != '\0' ? chip : NULL;
    const char *timeline = getenv("NVFP4_SIMULATE_TIMELINE");
    const char *machine_code = getenv("NVFP4_SIMULATE_MACHINE_CODE");
    options->machine_code = machine_code != NULL && machine_code[0] != '\0' ? machine_code : NULL;
    options->timeline = timeline != NULL && timeline[0] != '\0';
}

struct sim *runtime_lock(void) {
    (void)pthread_mutex_lock(&lock);
    if (the_sim == NULL && !lost) {
        struct sim_options options = {.mode = SIM_EAGER};
        read_options(&options);
        the_sim = sim_create(&options);
        struct sim_time time;
        if (the_sim != NULL && options.chip != NULL && !sim_time(the_sim, &time)) {
            refuse_setting("NVFP4_SIMULATE_TIME", options.chip, sim_message(the_sim));
        }
        if (the_sim != NULL) {
            outcome_begin(the_sim);
        }
    }
    if (the_sim == NULL || lost) {
        (void)pthread_mutex_unlock(&lock);
        return NULL;
    }
    return the_sim;
}

void runtime_unlock(void) {
    (void)pthread_mutex_unlock(&lock);
}

static atomic_bool broken;

cudaError_t runtime_sticky(void) {
    const char *go_on = getenv("NVFP4_SIMULATE_GO_ON");
    bool ignored = go_on != NULL && strcmp(go_on, "1") == 0;
    return atomic_load(&broken) && !ignored ? cudaErrorLaunchFailure : cudaSuccess;
}

void runtime_report(struct sim *sim) {
    bool failed = sim_run_failed(sim), first = failed && !atomic_load(&broken);
    if (sim_finding_count(sim) > reported || first) {
        (void)fputs("simulator:\n", stderr);
        sim_print_findings(sim, reported, stderr);
        reported = sim_finding_count(sim);
    }
    if (failed) {
        atomic_store(&broken, true);
    }
    outcome_update(sim);
}

/* NVFP4_SIMULATE_PTX names a file that takes the place of every module: for trials with changed PTX.  Whether
 * there is one; *text is NULL where there is no memory for it. */
static bool read_override(char **text, size_t *bytes) {
    const char *path = getenv("NVFP4_SIMULATE_PTX");
    const size_t room = (size_t)16 << 20;
    FILE *file = path == NULL || path[0] == '\0' ? NULL : fopen(path, "rb");
    *text = file == NULL ? NULL : malloc(room);
    if (*text != NULL) {
        *bytes = fread(*text, 1, room, file);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return file != NULL;
}

static const size_t default_shared_bytes = 48 * 1024;

/* Without a host address it is its own. */
static struct kernel_entry *add_kernel(void **handle, const void *host, const char *name) {
    struct kernel_entry *kernel = malloc(sizeof *kernel);
    char *copy = strdup(name);
    if (kernel == NULL || copy == NULL) {
        free(kernel);
        free(copy);
        return NULL;
    }
    *kernel =
        (struct kernel_entry){kernels, host == NULL ? kernel : host, copy, handle, default_shared_bytes, false};
    kernels = kernel;
    return kernel;
}

struct sim_module *registry_module(void **handle, cudaError_t *error) {
    struct binary *binary = (struct binary *)(void *)handle;
    if (!binary->tried) {
        size_t bytes = 0;
        const char *why = "out of memory";
        char *override, *unpacked = NULL;
        bool overridden = read_override(&override, &bytes);
        const struct chip *chip = runtime_chip();
        const char *ptx = overridden ? override
                                     : fatbin_ptx(binary->data, (unsigned)(10 * chip->major + chip->minor),
                                                  &bytes, &unpacked, &why);
        binary->module = ptx == NULL ? NULL : sim_load(the_sim, ptx, bytes);
        bool exhausted =
            ptx == NULL ? overridden : binary->module == NULL && sim_status(the_sim) == SIM_NO_MEMORY;
        binary->tried = !exhausted;
        if (binary->module == NULL) {
            (void)snprintf(binary->why, sizeof binary->why, "%s", ptx == NULL ? why : sim_message(the_sim));
            (void)fprintf(stderr, "simulator: cannot load a module: %s\n", binary->why);
        }
        free(override);
        free(unpacked);
        if (exhausted) {
            *error = cudaErrorMemoryAllocation;
            return NULL;
        }
    }
    *error = binary->module == NULL ? cudaErrorInvalidKernelImage : cudaSuccess;
    return binary->module;
}

const char *registry_why(void **handle) {
    return ((struct binary *)(void *)handle)->why;
}

void **registry_load(const void *image) {
    const __fatBinC_Wrapper_t *wrapper = image;
    unsigned magic;
    struct binary *binary = calloc(1, sizeof *binary);
    if (binary == NULL) {
        return NULL;
    }
    memcpy(&magic, image, sizeof magic);
    binary->data = magic == (unsigned)FATBINC_MAGIC ? (const char *)wrapper->data : image;
    binary->next = binaries;
    binaries = binary;
    return &binary->self;
}

struct kernel_entry *registry_loaded_kernel(void **handle, const char *name, cudaError_t *error) {
    struct sim_module *module = registry_module(handle, error);
    for (struct kernel_entry *known = kernels; module != NULL && known != NULL; known = known->next) {
        if (known->binary == handle && known->host == known && strcmp(known->name, name) == 0) {
            return known;
        }
    }
    if (module == NULL || sim_parameter_count(module, name) < 0) {
        *error = module == NULL ? *error : cudaErrorSymbolNotFound;
        return NULL;
    }
    struct kernel_entry *kernel = add_kernel(handle, NULL, name);
    *error = kernel == NULL ? cudaErrorMemoryAllocation : cudaSuccess;
    return kernel;
}

bool registry_arguments(const void *host, const char *buffer, void **pointers, int room) {
    cudaError_t error;
    bool known = false;
    if (runtime_lock() == NULL) {
        return false;
    }
    const struct kernel_entry *kernel = registry_kernel(host);
    const struct sim_module *module = kernel == NULL ? NULL : registry_module(kernel->binary, &error);
    if (module != NULL && sim_parameter_count(module, kernel->name) <= room) {
        for (int i = 0; i < sim_parameter_count(module, kernel->name); i++) {
            pointers[i] = (void *)(uintptr_t)(buffer + sim_parameter_offset(module, kernel->name, i));
        }
        known = true;
    }
    runtime_unlock();
    return known;
}

struct kernel_entry *registry_kernel(const void *host) {
    struct kernel_entry *kernel = kernels;
    while (kernel != NULL && kernel->host != host) {
        kernel = kernel->next;
    }
    return kernel;
}

void *registry_variable(const void *host, size_t *bytes, cudaError_t *error) {
    const struct variable_entry *variable = variables;
    while (variable != NULL && variable->host != host) {
        variable = variable->next;
    }
    *error = cudaErrorInvalidSymbol;
    struct sim_module *module = variable == NULL ? NULL : registry_module(variable->binary, error);
    void *address = module == NULL ? NULL : sim_global(module, variable->name, bytes);
    if (address == NULL && *error != cudaErrorMemoryAllocation) {
        *error = cudaErrorInvalidSymbol;
    }
    return address;
}

/* ---- what the generated code calls ---- */

void **__cudaRegisterFatBinary(void *wrapper) {
    struct binary *binary = calloc(1, sizeof *binary);
    if (binary == NULL) {
        lost = true;
        return &lost_binary.self;
    }
    binary->data = (const char *)((const __fatBinC_Wrapper_t *)wrapper)->data;
    binary->next = binaries;
    binaries = binary;
    return &binary->self;
}

void __cudaRegisterFatBinaryEnd(void **handle) {
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle) {
    (void)handle;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit,
                            void *tid, void *bid, void *block, void *grid, int *warp) {
    (void)device;
    (void)limit;
    (void)tid;
    (void)bid;
    (void)block;
    (void)grid;
    (void)warp;
    lost |= add_kernel(handle, host, name) == NULL;
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size,
                       int constant, int global) {
    (void)device;
    (void)ext;
    (void)size;
    (void)constant;
    (void)global;
    struct variable_entry *variable = malloc(sizeof *variable);
    char *copy = strdup(name);
    if (variable == NULL || copy == NULL) {
        free(variable);
        free(copy);
        lost = true;
        return;
    }
    *variable = (struct variable_entry){variables, host, copy, handle};
    variables = variable;
}

char __cudaInitModule(void **handle) {
    (void)handle;
    return 1;
}
