#include "tensor_map.h"

#include <stddef.h>
#include <stdio.h>

#define MAGIC 0x50414d54u /* "TMAP" */

/* Values of the CUDA driver API (cuda.h, CUtensorMapDataType). */
enum { TYPE_16U4_ALIGN8B = 13, TYPE_16U4_ALIGN16B, TYPE_16U6_ALIGN16B, TYPES };

static const uint8_t element_bytes[TYPES] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 0, 0, 0};

/* CUTLASS 4 clears bit 21 of a map's second word where the driver is older than 13.2 and the tensor small
 * (cute/atom/copy_traits_sm90_tma.hpp): nothing is kept in that word. */
struct encoded_map {
    uint32_t magic, sum; /* sum: of all other bytes but the unused ones */
    uint64_t unused;
    uint64_t address, strides[MAX_RANK - 1];
    uint32_t size[MAX_RANK]; /* modulo 2^32; whole tells 2^32 from none */
    uint16_t box[MAX_RANK];
    uint8_t steps[MAX_RANK];
    uint8_t type, rank, swizzle, promotion, fill, whole;
};
_Static_assert(sizeof(struct encoded_map) <= SIM_TENSOR_MAP_BYTES, "a tensor map has 128 bytes");
_Static_assert(offsetof(struct encoded_map, unused) == 8, "the second word of 64 bits");

/* What says that no one else has changed a map's bytes: a mistyped one gives another sum. */
static uint32_t sum_of(const uint8_t *bytes) {
    const uint64_t odd = 0x9e3779b97f4a7c15u;
    uint64_t sum = odd, word[SIM_TENSOR_MAP_BYTES / 8];
    memcpy(word, bytes, sizeof word);
    word[0] &= UINT32_MAX; /* the magic number, not the sum */
    word[1] = 0;
    for (size_t i = 0; i < sizeof word / sizeof *word; i++) {
        sum = (sum ^ word[i]) * odd;
        sum ^= sum >> 29;
    }
    return (uint32_t)(sum >> 32);
}

/* Elements of a unit (16 for the packed types), and its bytes in global and shared memory. */
static void unit_of(uint32_t type, uint32_t *elements, uint32_t *global, uint32_t *shared) {
    *elements = type >= TYPE_16U4_ALIGN8B ? 16 : 1;
    *global = type == TYPE_16U6_ALIGN16B ? 12 : type >= TYPE_16U4_ALIGN8B ? 8 : element_bytes[type];
    *shared = type == TYPE_16U4_ALIGN8B ? 8 : type >= TYPE_16U4_ALIGN16B ? 16 : element_bytes[type];
}

static uint32_t swizzle_width(uint32_t swizzle) {
    return swizzle == SWIZZLE_NONE ? 0 : swizzle == SWIZZLE_32B ? 32 : swizzle == SWIZZLE_64B ? 64 : 128;
}

static uint32_t at_most(uint32_t value, uint32_t limit) {
    return value < limit ? value : limit;
}

/* Values that no field holds stay illegal ones. */
static void pack(void *encoded, const struct sim_tensor_map *map) {
    uint8_t *bytes = encoded;
    struct encoded_map out = {.magic = MAGIC,
                              .type = (uint8_t)map->data_type,
                              .rank = (uint8_t)map->rank,
                              .swizzle = (uint8_t)map->swizzle,
                              .promotion = (uint8_t)map->l2_promotion,
                              .fill = (uint8_t)map->oob_fill,
                              .address = (uintptr_t)map->address};
    for (uint32_t i = 0; i < MAX_RANK; i++) {
        out.box[i] = (uint16_t)at_most(map->box[i], UINT16_MAX);
        out.steps[i] = (uint8_t)at_most(map->element_strides[i], UINT8_MAX);
        out.size[i] = (uint32_t)map->sizes[i];
        out.whole |= (uint8_t)((map->sizes[i] == (uint64_t)1 << 32) << i);
        if (i + 1 < MAX_RANK) {
            out.strides[i] = map->strides[i];
        }
    }
    memset(bytes, 0, SIM_TENSOR_MAP_BYTES);
    memcpy(bytes, &out, sizeof out);
    out.sum = sum_of(bytes);
    memcpy(bytes, &out, sizeof out);
}

#define REFUSE(...) return (void)snprintf(message, message_bytes, __VA_ARGS__), -1

/* The rules are those of the CUDA driver API's documentation of cuTensorMapEncodeTiled.  An address may be
 * NULL: kernels of grouped GEMMs fill it in. */
static int check_rules(const struct sim_tensor_map *map, char *message, size_t message_bytes) {
    uint32_t elements, global, shared;
    if (map->data_type >= TYPES || map->rank < 1 || map->rank > MAX_RANK) {
        REFUSE("data type %u or rank %u", map->data_type, map->rank);
    }
    if (map->interleave != 0 || map->swizzle >= SWIZZLES || map->oob_fill > 1 || map->l2_promotion > 3) {
        REFUSE("interleave %u, swizzle %u, fill %u or promotion %u", map->interleave, map->swizzle,
               map->oob_fill, map->l2_promotion);
    }
    unit_of(map->data_type, &elements, &global, &shared);
    bool padded = shared == 16;
    uint64_t alignment = padded ? 32 : 16;
    if ((uintptr_t)map->address % alignment != 0) {
        REFUSE("global address %p is not aligned to %u bytes", map->address, (unsigned)alignment);
    }
    for (uint32_t i = 0; i < map->rank; i++) {
        if (map->sizes[i] == 0 || map->sizes[i] > (uint64_t)1 << 32) {
            REFUSE("dimension %u has %llu elements; expected 1 to 2^32", i, (unsigned long long)map->sizes[i]);
        }
        if (map->box[i] == 0 || map->box[i] > 256) {
            REFUSE("box dimension %u is %u; expected 1 to 256", i, map->box[i]);
        }
        if (map->element_strides[i] == 0 || map->element_strides[i] > 8) {
            REFUSE("element stride %u is %u; expected 1 to 8", i, map->element_strides[i]);
        }
        if (i + 1 < map->rank && (map->strides[i] % alignment != 0 || map->strides[i] >= (uint64_t)1 << 40)) {
            REFUSE("global stride %u is %llu bytes; expected a multiple of %u below 2^40", i,
                   (unsigned long long)map->strides[i], (unsigned)alignment);
        }
    }
    if (map->box[0] % elements != 0 || (elements > 1 && map->sizes[0] % (padded ? 128 : 2) != 0)) {
        REFUSE("the innermost box or tensor dimension does not suit the packed type");
    }
    if (padded && map->box[0] != 128) {
        REFUSE("the innermost box dimension is %u; the padded types need 128", map->box[0]);
    }
    uint32_t inner = map->box[0] / elements * shared, width = swizzle_width(map->swizzle);
    if (inner % 16 != 0) {
        REFUSE("the box's rows have %u bytes; expected a multiple of 16", inner);
    }
    if (width != 0 && inner > width) {
        REFUSE("the box's rows have %u bytes, more than the swizzle's %u", inner, width);
    }
    return 0;
}

int sim_encode_tensor_map(void *encoded, const struct sim_tensor_map *map, char *message,
                          size_t message_bytes) {
    if (check_rules(map, message, message_bytes) != 0) {
        return -1;
    }
    pack(encoded, map);
    return 0;
}

int sim_replace_tensor_map_address(void *encoded, const void *address, char *message, size_t message_bytes) {
    struct sim_tensor_map map;
    if (tensor_map_read(encoded, &map) != MAP_READ) {
        REFUSE("there is no tensor map");
    }
    map.address = address;
    return sim_encode_tensor_map(encoded, &map, message, message_bytes);
}

enum map_state tensor_map_read(const uint8_t *bytes, struct sim_tensor_map *map) {
    static const uint8_t nothing[SIM_TENSOR_MAP_BYTES];
    struct encoded_map in;
    memcpy(&in, bytes, sizeof in);
    *map = (struct sim_tensor_map){.data_type = 0};
    if (in.magic != MAGIC) {
        return memcmp(bytes, nothing, sizeof nothing) == 0 ? MAP_BLANK : MAP_NONE;
    }
    if (in.sum != sum_of(bytes)) {
        return MAP_CHANGED;
    }
    *map = (struct sim_tensor_map){.data_type = in.type,
                                   .rank = in.rank,
                                   .address = (const void *)(uintptr_t)in.address,
                                   .swizzle = in.swizzle,
                                   .l2_promotion = in.promotion,
                                   .oob_fill = in.fill};
    for (uint32_t i = 0; i < MAX_RANK; i++) {
        map->box[i] = in.box[i];
        map->element_strides[i] = in.steps[i];
        map->sizes[i] = in.whole >> i & 1 ? (uint64_t)1 << 32 : in.size[i];
        map->strides[i] = i + 1 < MAX_RANK ? in.strides[i] : 0;
    }
    return MAP_READ;
}

bool tensor_map_write(uint8_t *bytes, const struct sim_tensor_map *map) {
    if (map->rank > MAX_RANK || map->data_type >= TYPES || map->swizzle >= SWIZZLES || map->oob_fill > 1) {
        return false;
    }
    pack(bytes, map);
    return true;
}

bool tensor_map_check(const struct sim_tensor_map *map, char *message, size_t room) {
    return check_rules(map, message, room) == 0;
}

bool tensor_box_make(const struct sim_tensor_map *map, const int64_t *at, struct tensor_box *box) {
    uint32_t elements, global, shared, width = swizzle_width(map->swizzle);
    unit_of(map->data_type, &elements, &global, &shared);
    *box = (struct tensor_box){.map = *map, .rows = 1};
    for (uint32_t i = 0; i < map->rank; i++) {
        box->at[i] = at[i];
        /* With an element stride s the box spans box[i] elements, of which every s-th is copied. */
        uint32_t count = (map->box[i] + map->element_strides[i] - 1) / map->element_strides[i];
        if (i > 0) {
            box->rows *= count;
        } else {
            box->row_elements = count;
        }
    }
    box->row_bytes = box->row_elements / elements * global;
    box->shared_row_bytes = box->row_elements / elements * shared;
    box->pitch = width > box->shared_row_bytes ? width : box->shared_row_bytes;
    /* A padded type signals what it reads: the kernels of CUTLASS, DeepGEMM and Triton expect 4 bits an element
     * of fp4, those of CUTLASS 6 of fp6 (sm100_blockscaled_mma_warpspecialized.hpp: sizeof_bits of
     * float_e2m3_t). */
    box->bytes = box->row_bytes * box->rows;
    return map->element_strides[0] == 1;
}

bool tensor_box_row(const struct tensor_box *box, uint32_t row, uint32_t *first, uint32_t *bytes,
                    uint64_t *address) {
    const struct sim_tensor_map *map = &box->map;
    uint32_t elements, global, shared;
    unit_of(map->data_type, &elements, &global, &shared);
    uint64_t base = (uintptr_t)map->address;
    for (uint32_t i = 1; i < map->rank; i++) {
        uint32_t step = map->element_strides[i], count = (map->box[i] + step - 1) / step;
        int64_t at = box->at[i] + (int64_t)(row % count) * step;
        row /= count;
        if (at < 0 || (uint64_t)at >= map->sizes[i]) {
            return false;
        }
        base += (uint64_t)at * map->strides[i - 1];
    }
    int64_t begin = box->at[0] < 0 ? -box->at[0] : 0, end = (int64_t)map->sizes[0] - box->at[0];
    end = end > (int64_t)box->row_elements ? (int64_t)box->row_elements : end;
    if (begin >= end) {
        return false;
    }
    /* Packed types: coordinates are multiples of 16 or 2 elements, so bytes stay whole. */
    *first = (uint32_t)begin * global / elements;
    *bytes = (uint32_t)end * global / elements - *first;
    *address = base + (uint64_t)((box->at[0] + begin) * (int64_t)global / (int64_t)elements);
    return true;
}

void tensor_row_to_shared(const struct tensor_box *box, const uint8_t *packed, uint8_t *row) {
    uint32_t elements, global, shared;
    unit_of(box->map.data_type, &elements, &global, &shared);
    if (global == shared) {
        memcpy(row, packed, box->row_elements / elements * global);
        return;
    }
    for (uint32_t i = 0; i < box->row_elements / elements; i++) {
        memset(row + i * shared, 0, shared);
        memcpy(row + i * shared, packed + i * global, global);
    }
}

void tensor_row_from_shared(const struct tensor_box *box, const uint8_t *row, uint8_t *packed) {
    uint32_t elements, global, shared;
    unit_of(box->map.data_type, &elements, &global, &shared);
    if (global == shared) {
        memcpy(packed, row, box->row_elements / elements * global);
        return;
    }
    for (uint32_t i = 0; i < box->row_elements / elements; i++) {
        memcpy(packed + i * global, row + i * shared, global);
    }
}

/* Units of 16 (32, 64) bytes change places by the address bits above them. */
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
    case SWIZZLE_128B_ATOM_64B:
        return address ^ (address >> 1 & 0x40);
    default:
        return address;
    }
}
