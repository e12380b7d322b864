/* Fuzz target: descriptors, tensor maps, shared, local and generic addresses, and operands with ranges of their
 * own, in kernels of one instruction.  The input chooses the kernel, the map and the values in memory that the
 * operands come from. */
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "forms.h"
#include "fuzz.h"
#include "sim.h"

enum { DATA_BYTES = 4096, NUMBERS_AT = 0, ADDRESSES_AT = 64, FIELDS = 5 };

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    return freopen("/dev/null", "w", stdout) == NULL;
}

/* Mostly nearly legal maps: a random one would fail at the first rule. */
static void choose_map(struct choices *choices, uint8_t *data, struct sim_tensor_map *map) {
    static const uint64_t sizes[] = {1, 2, 7, 16, 64, 128, 256, 4096, 0xffffffff, 0x100000000};
    *map = (struct sim_tensor_map){.data_type = (uint32_t)choose(choices, 17),
                                   .rank = (uint32_t)choose(choices, 7),
                                   .address = data + 16 * choose(choices, 32),
                                   .interleave = choose(choices, 64) == 0,
                                   .swizzle = (uint32_t)choose(choices, 8),
                                   .l2_promotion = (uint32_t)choose(choices, 4),
                                   .oob_fill = (uint32_t)choose(choices, 3)};
    for (int i = 0; i < FIELDS; i++) {
        map->box[i] = (uint32_t)choose(choices, 258);
        map->sizes[i] = choose(choices, 2) ? map->box[i] : sizes[choose(choices, sizeof sizes / sizeof *sizes)];
        map->strides[i] = 16 * choose(choices, 64);
        map->element_strides[i] = choose(choices, 4) ? 1 : (uint32_t)choose(choices, 10);
    }
    map->mode = choose(choices, 3) ? SIM_TENSOR_TILED : (uint32_t)choose(choices, 4);
    map->pixels = map->mode == SIM_TENSOR_TILED ? 0 : (uint32_t)choose(choices, 256);
    for (int i = 0; i < 3 && map->mode != SIM_TENSOR_TILED; i++) {
        map->lower[i] = (int32_t)choose(choices, 8) - 4;
        map->upper[i] = (int32_t)choose(choices, 8) - 4;
    }
}

/* An operand's value: of any magnitude, or near an existing object. */
static void choose_data(struct choices *choices, uint8_t *data) {
    uint8_t how = (uint8_t)choose(choices, 8);
    for (int i = 0; i < DATA_BYTES; i++) {
        data[i] = choices->left > 0 ? (uint8_t)choose(choices, 256) : 0;
    }
    for (int i = 0; i < FORM_OPERANDS; i++) {
        uint32_t number;
        uint64_t address;
        memcpy(&number, data + NUMBERS_AT + 4 * i, sizeof number);
        memcpy(&address, data + ADDRESSES_AT + 8 * i, sizeof address);
        number = how & 1 ? number % 20000 : number;
        address = how & 2 ? (uintptr_t)data + address % (DATA_BYTES + 64) : address;
        memcpy(data + NUMBERS_AT + 4 * i, &number, sizeof number);
        memcpy(data + ADDRESSES_AT + 8 * i, &address, sizeof address);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    struct choices choices = choices_of(bytes, size);
    static char text[FORM_ROOM];
    static _Alignas(64) uint8_t encoded[SIM_TENSOR_MAP_BYTES];
    char message[300];
    form_write(text, sizeof text, choose(&choices, form_count()));
    struct sim_options options = {.mode = (enum sim_mode)choose(&choices, 5),
                                  .seed = choose(&choices, 256),
                                  .threads = 1,
                                  .max_instructions = 2000};
    struct sim *sim = sim_create(&options);
    struct sim_module *module = sim == NULL ? NULL : sim_load(sim, text, strlen(text));
    uint8_t *data = sim == NULL ? NULL : sim_alloc(sim, DATA_BYTES, "data");
    if (module == NULL || data == NULL) {
        (void)fprintf(stderr, "a form does not load: %s\n%s", sim_message(sim), text);
        abort();
    }
    struct sim_tensor_map map;
    choose_map(&choices, data, &map);
    memset(encoded, 0, sizeof encoded);
    bool legal = sim_encode_tensor_map(encoded, &map, message, sizeof message) == 0;
    if (legal && choose(&choices, 8) == 0) { /* corrupt the map after it was encoded */
        encoded[choose(&choices, sizeof encoded)] ^= (uint8_t)(1 + choose(&choices, 255));
    }
    uint32_t ctas = 1 + (uint32_t)choose(&choices, 2);
    choose_data(&choices, data);
    void *arguments[] = {&data, encoded};
    struct sim_launch_attributes launch = {.grid = {ctas, 1, 1},
                                           .block = {128, 1, 1},
                                           .cluster = {ctas, 1, 1},
                                           .arguments = arguments,
                                           .argument_count = 2};
    (void)sim_launch(sim, module, "k", &launch);
    sim_destroy(sim);
    return 0;
}
