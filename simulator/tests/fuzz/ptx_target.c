/* Fuzz target: parses a text and runs its first kernel with memory and tensor maps as arguments. Mode, seed and
 * maps are derived from the text. */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "fuzz.h"
#include "grammar.h"
#include "sim.h"

enum { PARAMETERS = 64, MEMORY_BYTES = 8192, TYPES = 16, MAPS = 8 };

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    if (freopen("/dev/null", "w", stdout) == NULL) { /* kernels may print */
        return 1;
    }
    for (int i = 1; i < *argc; i++) {
        grammar_read_lines((*argv)[i]);
    }
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed) {
    return grammar_mutate((char *)data, size, room, seed);
}

/* A tensor map of any element type, with rows up to the longest. */
static void make_map(struct choices *choices, void *memory, uint8_t map[SIM_TENSOR_MAP_BYTES]) {
    static const uint32_t extents[] = {1, 2, 4, 8, 16, 32, 64, 128, 200, 256};
    const size_t count = sizeof extents / sizeof *extents;
    char message[200];
    struct sim_tensor_map wanted = {.data_type = (uint32_t)choose(choices, TYPES),
                                    .rank = 1 + (uint32_t)choose(choices, 5),
                                    .address = memory,
                                    .swizzle = choose(choices, 2) ? 0 : (uint32_t)choose(choices, 7),
                                    .oob_fill = (uint32_t)choose(choices, 2)};
    wanted.rank = choose(choices, 4) ? 2 : wanted.rank; /* mostly 2, as in the seeds */
    for (int i = 0; i < 5; i++) {
        wanted.box[i] = extents[i > 0                ? choose(choices, 5)
                                : choose(choices, 3) ? choose(choices, count)
                                                     : count - 1];
        wanted.sizes[i] =
            choose(choices, 4) ? wanted.box[i] * (1 + choose(choices, 2)) : 1 + choose(choices, 300);
        wanted.strides[i] = 16 * choose(choices, 256);
        wanted.element_strides[i] = choose(choices, 8) ? 1 : 1 + (uint32_t)choose(choices, 8);
    }
    memset(map, 0, SIM_TENSOR_MAP_BYTES);
    (void)sim_encode_tensor_map(map, &wanted, message, sizeof message);
}

/* True if a tensor map is among its arguments: then a second run gets another map. */
static bool launch(struct sim *sim, struct sim_module *module, const char *name, struct choices *choices) {
    static _Alignas(64) uint8_t cells[PARAMETERS][SIM_TENSOR_MAP_BYTES];
    void *arguments[PARAMETERS], *memory = sim_alloc(sim, MEMORY_BYTES, "memory");
    int count = sim_parameter_count(module, name);
    bool mapped = false;
    if (memory == NULL || count > PARAMETERS) {
        return false;
    }
    memset(memory, 0, MEMORY_BYTES);
    for (int i = 0; i < count; i++) {
        size_t bytes = sim_parameter_bytes(module, name, i);
        if (bytes > sizeof cells[0]) {
            return false;
        }
        if (bytes == SIM_TENSOR_MAP_BYTES) {
            make_map(choices, memory, cells[i]);
            mapped = true;
        } else {
            memset(cells[i], 0, sizeof cells[i]);
            memcpy(cells[i], &memory, sizeof memory);
        }
        arguments[i] = cells[i];
    }
    struct sim_launch_attributes attributes = {.grid = {2, 1, 1},
                                               .block = {choose(choices, 2) ? 64 : 1, 1, 1},
                                               .dynamic_shared_bytes = 4096,
                                               .arguments = arguments,
                                               .argument_count = (size_t)count};
    (void)sim_launch(sim, module, name, &attributes);
    return mapped;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct choices choices = choices_of(data, size);
    choices.left = 0; /* the input is the text; choices are derived from it */
    struct sim_options options = {.mode = (enum sim_mode)choose(&choices, 5),
                                  .seed = choose(&choices, 1000),
                                  .threads = 1,
                                  .max_instructions = 2000};
    struct sim *sim = sim_create(&options);
    if (sim == NULL) {
        return -1;
    }
    struct sim_module *module = sim_load(sim, (const char *)data, size);
    const char *name = module == NULL ? NULL : sim_kernel_name(module, 0);
    if (module == NULL && sim_status(sim) == SIM_BAD_PTX && strncmp(sim_message(sim), "line ", 5) != 0) {
        (void)fprintf(stderr, "an error without a line: '%s'\n", sim_message(sim));
        abort();
    }
    if (name != NULL) {
        for (int i = 0; i < MAPS && launch(sim, module, name, &choices); i++) {
        }
        sim_print_json(sim, stdout);
        sim_print_findings(sim, 0, stdout);
    }
    sim_destroy(sim);
    return 0;
}
