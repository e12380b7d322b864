#include "tensor_map.h"

#include <stddef.h>
#include <stdio.h>

#define MAGIC 0x50414d54u /* "TMAP" */

static const uint8_t element_bytes[TENSOR_TYPES] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4, 0, 0, 0};

/* Our own encoding. The second word stays unused, because CUTLASS 4 clears bit 21 of it if the driver is older
 * than 13.2 and the tensor small (cute/atom/copy_traits_sm90_tma.hpp). */
struct encoded_map {
    uint32_t magic, sum; /* sum: checksum of all other used bytes */
    uint64_t unused;
    uint64_t address, strides[MAX_RANK - 1];
    uint32_t size[MAX_RANK]; /* modulo 2^32; bit i of `whole`: size[i] is 2^32 */
    uint16_t box[MAX_RANK];
    int16_t lower[MAX_SPATIAL], upper[MAX_SPATIAL];
    uint16_t pixels;
    uint8_t steps[MAX_RANK];
    uint8_t type, rank, swizzle, promotion, fill, whole, mode;
};
_Static_assert(sizeof(struct encoded_map) <= SIM_TENSOR_MAP_BYTES, "a tensor map has 128 bytes");
_Static_assert(offsetof(struct encoded_map, unused) == 8, "the second word of 64 bits");

/* Checksum that reveals changes of a map's bytes other than by tensormap.replace. */
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

void tensor_unit(uint32_t type, uint32_t *elements, uint32_t *global, uint32_t *shared) {
    *elements = type >= TYPE_16U4_ALIGN8B ? 16 : 1;
    *global = type == TYPE_16U6_ALIGN16B ? 12 : type >= TYPE_16U4_ALIGN8B ? 8 : element_bytes[type];
    *shared = type == TYPE_16U4_ALIGN8B ? 8 : type >= TYPE_16U4_ALIGN16B ? 16 : element_bytes[type];
}

uint32_t tensor_swizzle_width(uint32_t swizzle) {
    return swizzle == SWIZZLE_NONE ? 0 : swizzle == SWIZZLE_32B ? 32 : swizzle == SWIZZLE_64B ? 64 : 128;
}

static uint32_t at_most(uint32_t value, uint32_t limit) {
    return value < limit ? value : limit;
}

/* Encodes the map. Values too large for a field are clamped to one that the checks still reject. */
static void pack(void *encoded, const struct sim_tensor_map *map) {
    uint8_t *bytes = encoded;
    struct encoded_map out = {.magic = MAGIC,
                              .type = (uint8_t)map->data_type,
                              .rank = (uint8_t)map->rank,
                              .swizzle = (uint8_t)map->swizzle,
                              .promotion = (uint8_t)map->l2_promotion,
                              .fill = (uint8_t)map->oob_fill,
                              .mode = (uint8_t)map->mode,
                              .pixels = (uint16_t)at_most(map->pixels, UINT16_MAX),
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
    for (uint32_t i = 0; i < MAX_SPATIAL; i++) {
        out.lower[i] = (int16_t)map->lower[i];
        out.upper[i] = (int16_t)map->upper[i];
    }
    memset(bytes, 0, SIM_TENSOR_MAP_BYTES);
    memcpy(bytes, &out, sizeof out);
    out.sum = sum_of(bytes);
    memcpy(bytes, &out, sizeof out);
}

#define REFUSE(...) return (void)snprintf(message, message_bytes, __VA_ARGS__), -1

/* Rules on the tensor that hold in every mode. */
static int check_tensor(const struct sim_tensor_map *map, char *message, size_t message_bytes) {
    uint32_t elements, global, shared;
    tensor_unit(map->data_type, &elements, &global, &shared);
    bool padded = shared == 16;
    uint64_t alignment = padded ? 32 : 16;
    if ((uintptr_t)map->address % alignment != 0) {
        REFUSE("global address %p is not aligned to %u bytes", map->address, (unsigned)alignment);
    }
    for (uint32_t i = 0; i < map->rank; i++) {
        if (map->sizes[i] == 0 || map->sizes[i] > (uint64_t)1 << 32) {
            REFUSE("dimension %u has %llu elements; expected 1 to 2^32", i, (unsigned long long)map->sizes[i]);
        }
        /* Dimension 0's stride must be in range although it is not used (cuda.h: "ignored"). */
        if (map->element_strides[i] == 0 || map->element_strides[i] > 8) {
            REFUSE("element stride %u is %u; expected 1 to 8", i, map->element_strides[i]);
        }
        if (i + 1 < map->rank && (map->strides[i] % alignment != 0 || map->strides[i] >= (uint64_t)1 << 40)) {
            REFUSE("global stride %u is %llu bytes; expected a multiple of %u below 2^40", i,
                   (unsigned long long)map->strides[i], (unsigned)alignment);
        }
    }
    if (elements > 1 && map->sizes[0] % (padded ? 128 : 2) != 0) {
        REFUSE("the innermost box or tensor dimension does not suit the packed type");
    }
    return 0;
}

/* Rules on a row of the box: box[0] elements (channelsPerPixel in im2col modes). */
static int check_row(const struct sim_tensor_map *map, char *message, size_t message_bytes) {
    uint32_t elements, global, shared, width = tensor_swizzle_width(map->swizzle);
    tensor_unit(map->data_type, &elements, &global, &shared);
    if (map->box[0] % elements != 0) {
        REFUSE("the innermost box or tensor dimension does not suit the packed type");
    }
    if (shared == 16 && map->box[0] != 128) {
        REFUSE("the innermost box dimension is %u; the padded types need 128", map->box[0]);
    }
    uint32_t inner = map->box[0] / elements * shared;
    if (inner % 16 != 0) {
        REFUSE("the box's rows have %u bytes; expected a multiple of 16", inner);
    }
    if (width != 0 && inner > width) {
        REFUSE("the box's rows have %u bytes, more than the swizzle's %u", inner, width);
    }
    return 0;
}

/* Rules on the bounding box and columns of cuTensorMapEncodeIm2col and cuTensorMapEncodeIm2colWide. */
static int check_columns(const struct sim_tensor_map *map, char *message, size_t message_bytes) {
    /* limits of a corner, for 1, 2, 3 spatial dimensions */
    static const int32_t limits[] = {1 << 15, 1 << 7, 1 << 4};
    bool wide = map->mode == SIM_TENSOR_IM2COL_W;
    if (map->rank < 3) {
        REFUSE("rank %u; im2col needs 3 to 5", map->rank);
    }
    uint32_t spatial = wide ? 1 : map->rank - 2;
    for (uint32_t i = 0; i < spatial; i++) {
        int32_t limit = limits[spatial - 1];
        if (map->lower[i] < -limit || map->lower[i] >= limit || map->upper[i] < -limit ||
            map->upper[i] >= limit) {
            REFUSE("corners %d and %d of dimension %u; expected %d to %d", map->lower[i], map->upper[i], i + 1,
                   -limit, limit - 1);
        }
        if ((int64_t)map->sizes[i + 1] + map->upper[i] - map->lower[i] < 1) {
            REFUSE("the bounding box has no pixel in dimension %u", i + 1);
        }
    }
    if (map->pixels == 0 || map->pixels > 1024) {
        REFUSE("%u pixels per column; expected 1 to 1024", map->pixels);
    }
    if (wide && map->swizzle != SWIZZLE_64B && map->swizzle != SWIZZLE_128B &&
        map->swizzle != SWIZZLE_128B_ATOM_32B) {
        REFUSE("swizzle %u; im2col::w has those of 64 and 128 bytes and of 32-byte atoms", map->swizzle);
    }
    return 0;
}

/* The rules of the CUDA driver API's documentation of cuTensorMapEncodeTiled, ...Im2col and ...Im2colWide
 * (cuda.h). The address may be NULL: kernels of grouped GEMMs fill it in. */
static int check_rules(const struct sim_tensor_map *map, char *message, size_t message_bytes) {
    bool tiled = map->mode == SIM_TENSOR_TILED;
    if (map->data_type >= TENSOR_TYPES || map->rank < 1 || map->rank > MAX_RANK ||
        map->mode > SIM_TENSOR_IM2COL_W) {
        REFUSE("data type %u, rank %u or mode %u", map->data_type, map->rank, map->mode);
    }
    if (map->interleave != 0 || map->swizzle >= SWIZZLES || map->oob_fill > 1 || map->l2_promotion > 3) {
        REFUSE("interleave %u, swizzle %u, fill %u or promotion %u", map->interleave, map->swizzle,
               map->oob_fill, map->l2_promotion);
    }
    if (map->oob_fill != 0 && (map->data_type < TYPE_F16 || map->data_type >= TYPE_16U4_ALIGN8B)) {
        REFUSE("fill with NaN outside a tensor of integers (data type %u)", map->data_type);
    }
    for (uint32_t i = 0; i < (tiled ? map->rank : 1); i++) {
        if (map->box[i] == 0 || map->box[i] > 256) {
            REFUSE("box dimension %u is %u; expected 1 to 256", i, map->box[i]);
        }
    }
    if (check_tensor(map, message, message_bytes) != 0 || check_row(map, message, message_bytes) != 0) {
        return -1;
    }
    return tiled ? 0 : check_columns(map, message, message_bytes);
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
                                   .oob_fill = in.fill,
                                   .mode = in.mode,
                                   .pixels = in.pixels};
    for (uint32_t i = 0; i < MAX_SPATIAL; i++) {
        map->lower[i] = in.lower[i];
        map->upper[i] = in.upper[i];
    }
    for (uint32_t i = 0; i < MAX_RANK; i++) {
        map->box[i] = in.box[i];
        map->element_strides[i] = in.steps[i];
        map->sizes[i] = in.whole >> i & 1 ? (uint64_t)1 << 32 : in.size[i];
        map->strides[i] = i + 1 < MAX_RANK ? in.strides[i] : 0;
    }
    return MAP_READ;
}

bool tensor_map_write(uint8_t *bytes, const struct sim_tensor_map *map) {
    if (map->rank > MAX_RANK || map->data_type >= TENSOR_TYPES || map->swizzle >= SWIZZLES ||
        map->oob_fill > 1) {
        return false;
    }
    pack(bytes, map);
    return true;
}

bool tensor_map_check(const struct sim_tensor_map *map, char *message, size_t room) {
    return check_rules(map, message, room) == 0;
}
