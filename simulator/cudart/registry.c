/* Registration, as nvcc's generated code calls it at load time. */
#include "registry.h"

#include <fatbinary_section.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FATBIN_MAGIC    0xba55ed50u
#define ENTRY_PTX       1
#define FLAG_COMPRESSED 0x2000
#define MAX_BINARIES    64
#define MAX_KERNELS     1024
#define MAX_VARIABLES   256

struct fat_header { /* of a fat binary, then its entries */
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
};

struct fat_entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes;
    uint32_t compressed_bytes, options_at;
    uint16_t minor, major;
    uint32_t arch, name_at, name_bytes;
    uint64_t flags;
};

static struct binary {
    void *self; /* the handle is this member's address */
    const __fatBinC_Wrapper_t *wrapper;
    struct sim_module *module;
    bool tried;
} binaries[MAX_BINARIES];
static struct kernel_entry kernels[MAX_KERNELS];
static struct {
    const void *host;
    char *name;
    void **binary;
} variables[MAX_VARIABLES];
static int nbinaries, nkernels, nvariables;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct sim *the_sim;
static size_t reported;

static int default_major = 9;

void runtime_default_major(int major) {
    default_major = major;
}

int runtime_major(void) {
    const char *chip = getenv("NVFP4_SIMULATE_CHIP");
    if (chip != NULL && chip[0] != '\0') {
        return strcmp(chip, "sm_100a") == 0 || strcmp(chip, "b200") == 0 ? 10 : 9;
    }
    return default_major;
}

int runtime_sms(void) {
    const int h200_sms = 132, b200_sms = 148;
    return runtime_major() == 10 ? b200_sms : h200_sms;
}

/* A variable that says something else: the run would not be what was asked for. */
static void refuse_setting(const char *variable, const char *value, const char *expected) {
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
}

static void at_end(void) {
    const char *path = getenv("NVFP4_SIMULATE_JSON");
    FILE *file = path == NULL || the_sim == NULL ? NULL : fopen(path, "w");
    if (file != NULL) {
        sim_print_json(the_sim, file);
        (void)fclose(file);
    }
}

struct sim *runtime_lock(void) {
    (void)pthread_mutex_lock(&lock);
    if (the_sim == NULL) {
        struct sim_options options = {.mode = SIM_EAGER};
        read_options(&options);
        the_sim = sim_create(&options);
        if (the_sim == NULL) {
            (void)fputs("simulator: out of memory\n", stderr);
            abort();
        }
        (void)atexit(at_end);
    }
    return the_sim;
}

void runtime_unlock(void) {
    (void)pthread_mutex_unlock(&lock);
}

bool runtime_report(struct sim *sim) {
    if (sim_finding_count(sim) > reported) {
        (void)fputs("simulator:\n", stderr);
        sim_print_findings(sim, stderr);
        reported = sim_finding_count(sim);
    }
    static bool broken;
    for (size_t i = 0; i < reported; i++) {
        const struct sim_finding *finding = sim_finding(sim, i);
        broken |= finding->verdict >= SIM_ERROR && strcmp(finding->kind, "launch-refused") != 0;
    }
    return broken;
}

/* The first PTX text in a fat binary. */
static const char *find_ptx(const __fatBinC_Wrapper_t *wrapper, size_t *bytes, const char **why) {
    const char *at = (const char *)wrapper->data;
    struct fat_header header;
    memcpy(&header, at, sizeof header);
    *why = "it holds no PTX: compile with code=compute_90a or compute_100a";
    if (header.magic != FATBIN_MAGIC) {
        *why = "it is no fat binary";
        return NULL;
    }
    const char *end = at + header.header_bytes + header.bytes;
    at += header.header_bytes;
    while (at + sizeof(struct fat_entry) <= end) {
        struct fat_entry entry;
        memcpy(&entry, at, sizeof entry);
        if (entry.kind == ENTRY_PTX && (entry.flags & FLAG_COMPRESSED)) {
            *why = "its PTX is compressed: compile with --no-compress";
        } else if (entry.kind == ENTRY_PTX) {
            *bytes = entry.bytes;
            return at + entry.header_bytes;
        }
        at += entry.header_bytes + entry.bytes;
    }
    return NULL;
}

/* NVFP4_SIMULATE_PTX names a file that takes the place of every module: for trials with changed PTX. */
static char *read_override(size_t *bytes) {
    const char *path = getenv("NVFP4_SIMULATE_PTX");
    const size_t room = (size_t)16 << 20;
    FILE *file = path == NULL || path[0] == '\0' ? NULL : fopen(path, "rb");
    char *text = file == NULL ? NULL : malloc(room);
    if (text != NULL) {
        *bytes = fread(text, 1, room, file);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return text;
}

struct sim_module *registry_module(void **handle) {
    struct binary *binary = (struct binary *)(void *)handle;
    if (!binary->tried) {
        size_t bytes = 0;
        const char *why = "";
        char *override = read_override(&bytes);
        const char *ptx = override != NULL ? override : find_ptx(binary->wrapper, &bytes, &why);
        binary->tried = true;
        binary->module = ptx == NULL ? NULL : sim_load(the_sim, ptx, bytes);
        if (binary->module == NULL) {
            (void)fprintf(stderr, "simulator: cannot load a fat binary: %s\n",
                          ptx == NULL ? why : sim_message(the_sim));
        }
        free(override);
    }
    return binary->module;
}

struct kernel_entry *registry_kernel(const void *host) {
    for (int i = 0; i < nkernels; i++) {
        if (kernels[i].host == host) {
            return &kernels[i];
        }
    }
    return NULL;
}

void *registry_variable(const void *host, size_t *bytes) {
    for (int i = 0; i < nvariables; i++) {
        if (variables[i].host == host) {
            struct sim_module *module = registry_module(variables[i].binary);
            return module == NULL ? NULL : sim_global(module, variables[i].name, bytes);
        }
    }
    return NULL;
}

/* ---- what the generated code calls ---- */

static char *copy_of(const char *text) {
    char *copy = malloc(strlen(text) + 1);
    if (copy != NULL) {
        memcpy(copy, text, strlen(text) + 1);
    }
    return copy;
}

void **__cudaRegisterFatBinary(void *wrapper);
void **__cudaRegisterFatBinary(void *wrapper) {
    if (nbinaries == MAX_BINARIES) {
        abort();
    }
    struct binary *binary = &binaries[nbinaries++];
    binary->wrapper = wrapper;
    return &binary->self;
}

void __cudaRegisterFatBinaryEnd(void **handle);
void __cudaRegisterFatBinaryEnd(void **handle) {
    (void)handle;
}

void __cudaUnregisterFatBinary(void **handle);
void __cudaUnregisterFatBinary(void **handle) {
    (void)handle;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit,
                            void *tid, void *bid, void *block, void *grid, int *warp);
void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name, int limit,
                            void *tid, void *bid, void *block, void *grid, int *warp) {
    (void)device;
    (void)limit;
    (void)tid;
    (void)bid;
    (void)block;
    (void)grid;
    (void)warp;
    if (nkernels == MAX_KERNELS) {
        abort();
    }
    kernels[nkernels++] = (struct kernel_entry){host, copy_of(name), handle, 48 * 1024};
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size,
                       int constant, int global);
void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int ext, size_t size,
                       int constant, int global) {
    (void)device;
    (void)ext;
    (void)size;
    (void)constant;
    (void)global;
    if (nvariables == MAX_VARIABLES) {
        abort();
    }
    variables[nvariables].host = host;
    variables[nvariables].name = copy_of(name);
    variables[nvariables++].binary = handle;
}

char __cudaInitModule(void **handle);
char __cudaInitModule(void **handle) {
    (void)handle;
    return 1;
}
