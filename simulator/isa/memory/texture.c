/* Textures and surfaces (PTX ISA, Texture and Surface Instructions: tex, tld4, txq, suld, sust, suq), of arrays
 * without mipmaps. Fetches follow the CUDA C++ Programming Guide, Texture Fetching: the weights of linear
 * filtering have 8 bits after the point. */
#include "texture.h"

#include <math.h>

#include "lane_access.h"
#include "tensorcore/half.h"
#include "tensorcore/mma/formats.h"

enum { DIMENSIONS = 3, COMPONENTS = 4, WEIGHT_ONE = 256 };

/* One texel of each lane: components as bits; lanes outside the texture with a border have none. */
struct texels {
    uint64_t bits[COMPONENTS][LANES];
    uint32_t inside;
};

/* The object of a handle; NULL after a report. */
static const struct sim_texture *object_of(struct run *run, uint64_t handle, int lane) {
    const struct sim_texture *texture = (const struct sim_texture *)(uintptr_t)handle;
    if (handle % _Alignof(struct sim_texture) != 0 ||
        !find_range(run->launch->sim, run->worker, handle, sizeof *texture) ||
        texture->magic != SIM_TEXTURE_MAGIC) {
        (void)sim_report(run, SIM_ERROR, "bad-address", lane, "%#llx is no texture or surface object",
                         (unsigned long long)handle);
        return NULL;
    }
    return texture;
}

static uint32_t texel_bytes(const struct sim_texture *t) {
    return t->channels * t->channel_bits / 8;
}

static uint64_t texel_address(const struct sim_texture *t, const int32_t at[DIMENSIONS], uint32_t layer) {
    const uint32_t slice = t->dimensions == 3 ? (uint32_t)at[2] : layer;
    return (uint64_t)(uintptr_t)t->data + slice * t->slice_pitch + (uint32_t)at[1] * t->pitch +
           (uint64_t)(uint32_t)at[0] * texel_bytes(t);
}

/* Reads the components of one texel of each lane in `mask`. */
static enum next read_texels(struct run *run, const struct sim_texture *t, const uint64_t addresses[LANES],
                             uint32_t mask, struct texels *out) {
    const uint32_t bytes = t->channel_bits / 8;
    memset(out->bits, 0, sizeof out->bits);
    out->inside = mask;
    for (uint32_t c = 0; c < t->channels && mask != 0; c++) {
        uint64_t at[LANES];
        FOR_LANES(rest, mask) {
            at[LANE(rest)] = addresses[LANE(rest)] + c * bytes;
        }
        if (lane_access(run, SP_GLOBAL, at, mask, bytes, false, out->bits[c]) != NEXT) {
            return FAIL;
        }
    }
    return NEXT;
}

static float channel_float(const struct sim_texture *t, uint64_t bits) {
    if (t->kind == SIM_TEXTURE_FLOAT) {
        return t->channel_bits == 16 ? f16_to_f32((uint32_t)bits) : tc_f32_of_bits((uint32_t)bits);
    }
    const uint32_t width = t->channel_bits;
    if (t->kind == SIM_TEXTURE_UNSIGNED) {
        return (float)bits / (float)((1u << width) - 1);
    }
    const int32_t value = width == 8 ? (int8_t)bits : (int16_t)bits;
    const float most = (float)((1 << (width - 1)) - 1), x = (float)value / most;
    return x < -1 ? -1 : x;
}

static uint32_t channel_integer(const struct sim_texture *t, uint64_t bits) {
    const uint32_t left = 32 - t->channel_bits;
    return t->kind == SIM_TEXTURE_SIGNED ? (uint32_t)((int32_t)((uint32_t)bits << left) >> left)
                                         : (uint32_t)bits;
}

/* The texel that index i of a dimension means; -1: outside, with a border. */
static int32_t addressed(const struct sim_texture *t, int dimension, int64_t i) {
    const int64_t n = t->size[dimension];
    const unsigned mode = t->address_mode[dimension];
    if (mode == SIM_ADDRESS_WRAP && t->normalized) {
        return (int32_t)(((i % n) + n) % n);
    }
    if (mode == SIM_ADDRESS_MIRROR && t->normalized) {
        const int64_t at = ((i % (2 * n)) + 2 * n) % (2 * n);
        return (int32_t)(at < n ? at : 2 * n - 1 - at);
    }
    if (i >= 0 && i < n) {
        return (int32_t)i;
    }
    return mode == SIM_ADDRESS_BORDER || t->linear_memory ? -1 : i < 0 ? 0 : (int32_t)n - 1;
}

/* Where the lanes fetch: the lowest texel of each dimension and the weight of the next one. */
struct place {
    int64_t low[DIMENSIONS][LANES];
    uint32_t weight[DIMENSIONS][LANES], layer[LANES];
    bool filtered;
};

static struct place place_of(const struct run *run, const struct insn *insn, const struct sim_texture *t,
                             uint32_t mask, bool filtered) {
    const struct texture_fields *fields = &insn->texture;
    struct place p = {.filtered = filtered};
    int at = insn->ndst + 1;
    if (fields->layered) {
        FOR_LANES(rest, mask) {
            const uint32_t layer = lane_u32(run, insn->op[at], LANE(rest));
            p.layer[LANE(rest)] = layer < t->layers ? layer : t->layers - 1;
        }
        at++;
    }
    for (int d = 0; d < fields->dimensions; d++, at++) {
        FOR_LANES(rest, mask) {
            const int lane = LANE(rest);
            const uint32_t bits = lane_u32(run, insn->op[at], lane);
            if (!fields->real) {
                p.low[d][lane] = (int32_t)bits;
                continue;
            }
            double x = (double)tc_f32_of_bits(bits);
            x = t->normalized ? x * t->size[d] : x;
            x = x != x ? 0 : x < -0x1p40 ? -0x1p40 : x > 0x1p40 ? 0x1p40 : x;
            if (!filtered) {
                p.low[d][lane] = (int64_t)floor(x);
                continue;
            }
            const double fixed = floor((x - 0.5) * WEIGHT_ONE + 0.5);
            p.low[d][lane] = (int64_t)floor(fixed / WEIGHT_ONE);
            p.weight[d][lane] = (uint32_t)(int64_t)(fixed - (double)p.low[d][lane] * WEIGHT_ONE);
        }
    }
    return p;
}

/* Reads the texel at the lowest place plus the corner's bits. */
static enum next read_corner(struct run *run, const struct sim_texture *t, const struct place *p,
                             int dimensions, uint32_t corner, uint32_t mask, struct texels *out) {
    uint64_t addresses[LANES];
    uint32_t inside = 0;
    FOR_LANES(rest, mask) {
        const int lane = LANE(rest);
        int32_t at[DIMENSIONS] = {0};
        bool in = true;
        for (int d = 0; d < dimensions; d++) {
            at[d] = addressed(t, d, p->low[d][lane] + (corner >> d & 1));
            in &= at[d] >= 0;
        }
        addresses[lane] = in ? texel_address(t, at, p->layer[lane]) : 0;
        inside |= (uint32_t)in << lane;
    }
    return read_texels(run, t, addresses, inside, out);
}

static uint32_t result_bits(const struct sim_texture *t, const struct texels *texels, int c, int lane,
                            bool real) {
    const bool there = texels->inside >> lane & 1;
    if (!real) {
        return there ? channel_integer(t, texels->bits[c][lane]) : 0;
    }
    const float x = there ? channel_float(t, texels->bits[c][lane]) : t->linear_memory ? 0 : t->border[c];
    return tc_bits_of_f32(x);
}

static void put_results(const struct run *run, const struct insn *insn, uint32_t mask,
                        uint32_t results[COMPONENTS][LANES]) {
    for (int c = 0; c < insn->ndst; c++) {
        uint32_t *to = row(run, insn->op[c]);
        FOR_LANES(rest, insn->op[c].sink ? 0 : mask) {
            to[LANE(rest)] = results[c][LANE(rest)];
        }
    }
}

/* tex for lanes with one texture. */
static enum next fetch(struct run *run, const struct insn *insn, const struct sim_texture *t, uint32_t mask) {
    const bool real = insn->type == T_F32 && (t->kind == SIM_TEXTURE_FLOAT || t->read_normalized);
    const bool filtered = t->filter_linear && insn->texture.real && !t->linear_memory && real;
    const struct place p = place_of(run, insn, t, mask, filtered);
    const int dimensions = insn->texture.dimensions;
    const uint32_t corners = filtered ? 1u << dimensions : 1;
    double sums[COMPONENTS][LANES] = {{0}};
    uint32_t results[COMPONENTS][LANES];
    for (uint32_t corner = 0; corner < corners; corner++) {
        struct texels texels;
        if (read_corner(run, t, &p, dimensions, corner, mask, &texels) != NEXT) {
            return FAIL;
        }
        FOR_LANES(rest, mask) {
            const int lane = LANE(rest);
            double weight = 1;
            for (int d = 0; d < dimensions && filtered; d++) {
                const uint32_t of_next = p.weight[d][lane];
                weight *= (double)(corner >> d & 1 ? of_next : WEIGHT_ONE - of_next) / WEIGHT_ONE;
            }
            for (int c = 0; c < COMPONENTS; c++) {
                results[c][lane] = result_bits(t, &texels, c, lane, real);
                sums[c][lane] +=
                    filtered && weight != 0 ? weight * (double)tc_f32_of_bits(results[c][lane]) : 0;
            }
        }
    }
    for (int c = 0; c < COMPONENTS && filtered; c++) {
        FOR_LANES(rest, mask) {
            results[c][LANE(rest)] = tc_bits_of_f32((float)sums[c][LANE(rest)]);
        }
    }
    put_results(run, insn, mask, results);
    return NEXT;
}

/* tld4: one component of the four texels that linear filtering would use, anticlockwise from the lower left. */
static enum next gather(struct run *run, const struct insn *insn, const struct sim_texture *t, uint32_t mask) {
    static const uint8_t corners[COMPONENTS] = {2, 3, 1, 0};
    const bool real = insn->type == T_F32;
    const struct place p = place_of(run, insn, t, mask, true);
    uint32_t results[COMPONENTS][LANES];
    for (int i = 0; i < COMPONENTS; i++) {
        struct texels texels;
        if (read_corner(run, t, &p, 2, corners[i], mask, &texels) != NEXT) {
            return FAIL;
        }
        FOR_LANES(rest, mask) {
            results[i][LANE(rest)] = result_bits(t, &texels, insn->texture.component, LANE(rest), real);
        }
    }
    put_results(run, insn, mask, results);
    return NEXT;
}

/* txq, suq. */
static enum next query(struct run *run, const struct insn *insn, const struct sim_texture *t, uint32_t mask) {
    uint32_t *to = row(run, insn->op[0]);
    FOR_LANES(rest, mask) {
        to[LANE(rest)] = insn->texture.component < DIMENSIONS ? t->size[insn->texture.component] : t->layers;
    }
    return NEXT;
}

/* suld, sust; op: values of a load, handle, coordinates (x in bytes), values of a store. */
static enum next surface(struct run *run, const struct insn *insn, const struct sim_texture *t, uint32_t mask) {
    const struct texture_fields *fields = &insn->texture;
    const bool write = insn->ndst == 0;
    const int first = insn->ndst + 1, values = write ? first + fields->layered + fields->dimensions : 0;
    const uint32_t bytes = fields->bytes, total = bytes * fields->elements;
    uint64_t addresses[LANES];
    uint32_t inside = 0;
    FOR_LANES(rest, mask) {
        const int lane = LANE(rest);
        int64_t at[DIMENSIONS] = {0}, layer = fields->layered ? lane_u32(run, insn->op[first], lane) : 0;
        bool in = layer < t->layers;
        for (int d = 0; d < fields->dimensions; d++) {
            const int64_t most = (int64_t)t->size[d] * (d == 0 ? texel_bytes(t) : 1) - (d == 0 ? total : 1);
            at[d] = (int32_t)lane_u32(run, insn->op[first + fields->layered + d], lane);
            const int64_t near = at[d] < 0 ? 0 : at[d] > most ? most : at[d];
            in &= near == at[d];
            at[d] = near;
        }
        if (!in && fields->outside == OUTSIDE_TRAP) {
            return sim_report(run, SIM_ERROR, "out-of-bounds", lane, "a surface access outside the surface");
        }
        layer = layer < t->layers ? layer : t->layers - 1;
        addresses[lane] = (uint64_t)(uintptr_t)t->data +
                          (uint64_t)(t->dimensions == 3 ? at[2] : layer) * t->slice_pitch +
                          (uint64_t)at[1] * t->pitch + (uint64_t)at[0];
        inside |= (uint32_t)(in || fields->outside == OUTSIDE_CLAMP) << lane;
    }
    for (uint32_t i = 0; i < fields->elements; i++) {
        const struct operand operand = insn->op[(uint32_t)values + i];
        uint64_t bits[LANES] = {0}, at[LANES];
        FOR_LANES(rest, mask) {
            at[LANE(rest)] = addresses[LANE(rest)] + i * bytes;
            bits[LANE(rest)] = write ? lane_u64(run, operand, LANE(rest)) : 0;
        }
        if (lane_access(run, SP_GLOBAL, at, inside, bytes, write, bits) != NEXT) {
            return FAIL;
        }
        FOR_LANES(rest, write || operand.sink ? 0 : mask) {
            set_lane(run, operand, LANE(rest), bits[LANE(rest)]);
        }
    }
    return NEXT;
}

/* Executes for the lanes of each object. */
enum next exec_texture(struct run *run, const struct insn *insn, uint32_t mask) {
    static enum next (*const parts[])(struct run *, const struct insn *, const struct sim_texture *,
                                      uint32_t) = {fetch, gather, query, surface};
    while (mask != 0) {
        const int first = __builtin_ctz(mask);
        const uint64_t handle = lane_u64(run, insn->op[insn->ndst], first);
        const uint32_t same = lanes_with(run, insn->op[insn->ndst], mask, handle);
        const struct sim_texture *t = object_of(run, handle, first);
        if (t != NULL && (t->is_surface != insn->texture.of_surface ||
                          (insn->texture.dimensions != 0 && t->dimensions != insn->texture.dimensions))) {
            (void)sim_report(run, SIM_ERROR, "bad-address", first,
                             "an object of another kind or dimension: %s of %u",
                             t->is_surface ? "a surface" : "a texture", t->dimensions);
            t = NULL;
        }
        if (t == NULL || parts[insn->texture.operation](run, insn, t, same) != NEXT) {
            return FAIL;
        }
        mask &= ~same;
    }
    return NEXT;
}
