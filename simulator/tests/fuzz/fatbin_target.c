/* Fuzz target: the input is a fat binary that a program registers, with a kernel and a variable. */
#include "cudart/image/fatbin.c"
/* To empty, after each input, the lists that a process normally keeps. */
#include "cudart/process_sim.c"
#include "cudart/registry.c"

#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    return freopen("/dev/null", "w", stdout) == NULL;
}

static void forget(void) {
    for (struct binary *binary = binaries, *next; binary != NULL; binary = next) {
        next = binary->next;
        free(binary);
    }
    for (struct kernel_entry *kernel = kernels, *next; kernel != NULL; kernel = next) {
        next = kernel->next;
        free(kernel->name);
        free(kernel);
    }
    for (struct variable_entry *variable = variables, *next; variable != NULL; variable = next) {
        next = variable->next;
        free(variable->name);
        free(variable);
    }
    binaries = NULL;
    kernels = NULL;
    variables = NULL;
    sim_destroy(the_sim);
    the_sim = NULL;
    reported = 0;
    lost = false;
}

/* The header's length is set right: nothing else gives the end of the bytes. */
static uint8_t *honest(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size);
    struct fat_header header;
    if (copy == NULL) {
        return NULL;
    }
    memcpy(copy, data, size);
    memcpy(&header, copy, sizeof header);
    header.magic = FATBIN_MAGIC;
    header.header_bytes = header.header_bytes > size ? (uint16_t)sizeof header : header.header_bytes;
    header.bytes = size - header.header_bytes;
    memcpy(copy, &header, sizeof header);
    return copy;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char host;
    uint8_t *copy = size < sizeof(struct fat_header) ? NULL : honest(data, size);
    if (copy == NULL) {
        return -1;
    }
    __fatBinC_Wrapper_t wrapper = {
        .magic = 0x466243b1, .version = 1, .data = (const unsigned long long *)(void *)copy};
    void **handle = __cudaRegisterFatBinary(&wrapper);
    char name[] = "k";
    cudaError_t error;
    size_t bytes;
    __cudaRegisterFunction(handle, &host, name, name, -1, NULL, NULL, NULL, NULL, NULL);
    __cudaRegisterVar(handle, name, name, name, 0, 4, 0, 0);
    __cudaRegisterFatBinaryEnd(handle);
    struct sim *sim = runtime_lock();
    if (sim != NULL) {
        (void)registry_module(sim, registry_kernel(&host)->binary, &error);
        (void)registry_variable(sim, name, &bytes, &error);
        runtime_unlock();
    }
    forget();
    free(copy);
    return 0;
}
