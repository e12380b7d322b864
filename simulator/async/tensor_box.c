#include "tensor_box.h"

#include <stdio.h>

#define REFUSE(...) return (void)snprintf(message, room, __VA_ARGS__), false

/* The pixels that a column traverses in one spatial dimension: the bounding box, moved by the instruction's
 * offset (PTX ISA, Tensors: im2col mode; wOffset). */
struct window {
    int64_t first, last, step;
};

static struct window window_of(const struct sim_tensor_map *map, const struct tensor_place *place, uint32_t i) {
    int64_t offset = place->offset[i];
    return (struct window){map->lower[i] + offset, (int64_t)map->sizes[i + 1] - 1 + map->upper[i] + offset,
                           map->element_strides[i + 1]};
}

/* Number of spatial dimensions that a column traverses. */
static uint32_t unrolled(const struct sim_tensor_map *map, const struct tensor_place *place) {
    return place->mode == TENSOR_IM2COL ? map->rank - 2 : place->mode == TENSOR_IM2COL_W ? 1 : 0;
}

static bool check_columns(const struct sim_tensor_map *map, const struct tensor_place *place, bool store,
                          char *message, size_t room) {
    /* limits of an offset, for 1, 2, 3 spatial dimensions */
    static const int64_t limits[] = {1 << 16, 1 << 8, 1 << 5};
    enum { HALO = 512, W_OFFSET = 32 };
    uint32_t spatial = unrolled(map, place);
    bool wide = place->mode == TENSOR_IM2COL_W;
    int64_t limit = wide ? W_OFFSET : limits[spatial - 1];
    if (place->halo >= HALO) {
        REFUSE("a halo of %u pixels; expected less than %d", place->halo, HALO);
    }
    for (uint32_t i = 0; i < spatial; i++) {
        struct window window = window_of(map, place, i);
        int64_t base = place->at[i + 1] + place->offset[i];
        if (place->offset[i] >= limit) {
            REFUSE("an offset of %lld in dimension %u; expected less than %lld", (long long)place->offset[i],
                   i + 1, (long long)limit);
        }
        if ((base < window.first && !wide) || base > window.last) {
            REFUSE("coordinate %lld of dimension %u is not in the bounding box, %lld to %lld",
                   (long long)place->at[i + 1], i + 1, (long long)(window.first - place->offset[i]),
                   (long long)(window.last - place->offset[i]));
        }
        if (store && (map->lower[i] < 0 || map->upper[i] > 0)) {
            REFUSE("a store whose bounding box leaves the tensor in dimension %u", i + 1);
        }
    }
    return true;
}

/* PTX ISA, Tensor copy: restrictions. */
bool tensor_place_check(const struct sim_tensor_map *map, const struct tensor_place *place, bool store,
                        char *message, size_t room) {
    const int64_t padded = 128; /* copies of padded types start at multiples of this many elements */
    static const uint8_t modes[] = {[TENSOR_TILE] = SIM_TENSOR_TILED,
                                    [TENSOR_ROWS] = SIM_TENSOR_TILED,
                                    [TENSOR_IM2COL] = SIM_TENSOR_IM2COL,
                                    [TENSOR_IM2COL_W] = SIM_TENSOR_IM2COL_W};
    if (map->mode != modes[place->mode]) {
        REFUSE("the tensor map is for another mode than the instruction's");
    }
    if (place->mode == TENSOR_ROWS && map->box[1] != 1) {
        REFUSE("box dimension 1 is %u; expected 1 for four rows", map->box[1]);
    }
    if (map->data_type >= TYPE_16U4_ALIGN16B && place->at[0] % padded != 0) {
        REFUSE("a copy of a padded type starts at element %lld; expected a multiple of %lld",
               (long long)place->at[0], (long long)padded);
    }
    if (store && map->data_type == TYPE_16U4_ALIGN16B) {
        REFUSE("a store of the padded 4-bit type");
    }
    return unrolled(map, place) == 0 || check_columns(map, place, store, message, room);
}

static uint32_t count_rows(const struct sim_tensor_map *map, const struct tensor_place *place) {
    uint32_t rows = 1;
    switch (place->mode) {
    case TENSOR_ROWS:
        return ROWS_AT_ONCE;
    case TENSOR_IM2COL:
    case TENSOR_IM2COL_W:
        return map->pixels + place->halo;
    default: /* with element stride s, every s-th of the box[i] elements is copied */
        for (uint32_t i = 1; i < map->rank; i++) {
            rows *= (map->box[i] + map->element_strides[i] - 1) / map->element_strides[i];
        }
        return rows;
    }
}

void tensor_box_make(const struct sim_tensor_map *map, const struct tensor_place *place,
                     struct tensor_box *box) {
    uint32_t elements, global, shared, width = tensor_swizzle_width(map->swizzle);
    tensor_unit(map->data_type, &elements, &global, &shared);
    *box = (struct tensor_box){.map = *map, .place = *place};
    box->rows = count_rows(map, place);
    box->row_elements = map->box[0]; /* its element stride is ignored: cuda.h, cuTensorMapEncodeTiled */
    box->row_bytes = box->row_elements / elements * global;
    box->shared_row_bytes = box->row_elements / elements * shared;
    box->pitch = width > box->shared_row_bytes ? width : box->shared_row_bytes;
    /* For padded types the barrier counts the bytes read, not the padded ones: CUTLASS, DeepGEMM and Triton
     * expect 4 bits per fp4 element and CUTLASS 6 bits per fp6 element
     * (sm100_blockscaled_mma_warpspecialized.hpp: sizeof_bits of float_e2m3_t); an RTX 5080 does so
     * (roundandr/Allegro, nvidia_tma_formats_sm120a.json). */
    box->bytes = box->row_bytes * box->rows;
}

/* Coordinate of the pixel *count steps after `base`; *count becomes the number of times the window was left and
 * re-entered, the steps in the next dimension. */
static int64_t pixel_of(struct window window, int64_t base, int64_t *count) {
    int64_t before = (window.last - base) / window.step + 1; /* pixels until the window's end */
    if (*count < before) {
        int64_t at = base + *count * window.step;
        *count = 0;
        return at;
    }
    int64_t around = (window.last - window.first) / window.step + 1, rest = *count - before;
    *count = 1 + rest / around;
    return window.first + rest % around * window.step;
}

/* Coordinates of a row, from dimension 1 on. A column runs through W first, then H, D and the images; at the
 * end of a dimension it continues at the window's first pixel. Halo pixels continue the column in the same way
 * (both as on an RTX 5080: roundandr/Allegro, nvidia_tma_sm120a.json, cases 7 to 9, 14 and 15). */
static void row_coordinates(const struct tensor_box *box, uint32_t row, int64_t at[MAX_RANK]) {
    const struct sim_tensor_map *map = &box->map;
    const struct tensor_place *place = &box->place;
    int64_t count = row;
    memcpy(at, place->at, sizeof place->at);
    switch (place->mode) {
    case TENSOR_ROWS:
        at[1] = place->rows[row];
        return;
    case TENSOR_IM2COL:
    case TENSOR_IM2COL_W:
        for (uint32_t i = 0; i < unrolled(map, place); i++) {
            at[i + 1] = pixel_of(window_of(map, place, i), at[i + 1] + place->offset[i], &count);
        }
        at[map->rank - 1] += count;
        return;
    default:
        for (uint32_t i = 1; i < map->rank; i++) {
            uint32_t step = map->element_strides[i], steps = (map->box[i] + step - 1) / step;
            at[i] += (int64_t)(row % steps) * step;
            row /= steps;
        }
    }
}

struct box_row tensor_box_row(const struct tensor_box *box, uint32_t row) {
    struct box_row inside = {0};
    const struct sim_tensor_map *map = &box->map;
    uint32_t elements, global, shared;
    int64_t at[MAX_RANK];
    tensor_unit(map->data_type, &elements, &global, &shared);
    uint64_t base = (uintptr_t)map->address;
    row_coordinates(box, row, at);
    for (uint32_t i = 1; i < map->rank; i++) {
        if (at[i] < 0 || (uint64_t)at[i] >= map->sizes[i]) {
            return inside;
        }
        base += (uint64_t)at[i] * map->strides[i - 1];
    }
    int64_t begin = at[0] < 0 ? -at[0] : 0, end = (int64_t)map->sizes[0] - at[0];
    end = end > (int64_t)box->row_elements ? (int64_t)box->row_elements : end;
    if (begin < end) { /* coordinates of packed types are multiples of 16 or 2 elements, so no byte is split */
        inside.first = (uint32_t)begin * global / elements;
        inside.bytes = (uint32_t)end * global / elements - inside.first;
        inside.address = base + (uint64_t)((at[0] + begin) * (int64_t)global / (int64_t)elements);
    }
    return inside;
}

void tensor_row_to_shared(const struct tensor_box *box, const uint8_t *packed, uint8_t *row) {
    uint32_t elements, global, shared;
    tensor_unit(box->map.data_type, &elements, &global, &shared);
    if (global == shared) {
        memcpy(row, packed, box->row_elements / elements * global);
        return;
    }
    for (uint32_t i = 0; i < box->row_elements / elements; i++) {
        memset(row + i * shared, 0, shared);
        memcpy(row + i * shared, packed + i * global, global);
    }
}

/* A store packs 6 bits of each byte (PTX ISA, Sub-byte types: .b6p2x16). */
void tensor_row_from_shared(const struct tensor_box *box, const uint8_t *row, uint8_t *packed) {
    const uint32_t bits = 6, mask = 0x3f;
    if (box->map.data_type != TYPE_16U6_ALIGN16B) {
        memcpy(packed, row, box->row_bytes);
        return;
    }
    memset(packed, 0, box->row_bytes);
    for (uint32_t i = 0; i < box->row_elements; i++) {
        uint32_t value = (row[i] & mask) << (i * bits % 8), at = i * bits / 8;
        packed[at] |= (uint8_t)value;
        if (value >> 8 != 0) {
            packed[at + 1] |= (uint8_t)(value >> 8);
        }
    }
}

/* XORs the number of the 16- (32-, 64-) byte unit with higher address bits. */
uint32_t tensor_swizzle(const struct tensor_box *box, uint32_t address) {
    switch (box->map.swizzle) {
    case SWIZZLE_32B:
        return address ^ (address >> 3 & 0x10);
    case SWIZZLE_64B:
        return address ^ (address >> 3 & 0x30);
    case SWIZZLE_128B:
        return address ^ (address >> 3 & 0x70);
    case SWIZZLE_128B_ATOM_32B:
        return address ^ (address >> 2 & 0x60);
    case SWIZZLE_128B_ATOM_32B_FLIP_8B: /* flips 8-byte halves in every second 128-byte line */
        return address ^ (address >> 2 & 0x60) ^ (address >> 4 & 8);
    case SWIZZLE_128B_ATOM_64B:
        return address ^ (address >> 1 & 0x40);
    default:
        return address;
    }
}

uint32_t tensor_swizzle_atom(const struct tensor_box *box) {
    return box->map.swizzle == SWIZZLE_128B_ATOM_32B_FLIP_8B ? 8 : 16;
}
