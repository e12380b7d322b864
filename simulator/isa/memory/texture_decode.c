/* Decodes tex, tld4, txq, suld, sust and suq of texture and surface objects. */
#include "texture.h"

#include "isa/opcodes.h"

static const char *const geometries[] = {"1d", "2d", "3d", "a1d", "a2d"};

/* Takes the geometry and emits the operand [object, coordinates]. */
static void emit_place(struct decoder *d, const struct operand_text *written, unsigned coordinate) {
    const int geometry = mod_of(d, COUNTED(geometries));
    if (geometry < 0) {
        decode_fail(d, "only 1d, 2d, 3d, a1d and a2d are supported");
    }
    const bool layered = geometry > 2;
    const uint8_t dimensions = (uint8_t)(layered ? geometry - 2 : geometry + 1);
    const uint32_t wanted = dimensions + (uint32_t)layered;
    uint32_t count;
    if (written->kind != PO_ADDRESS || written->count != 2) {
        decode_fail(d, "expected [object, {coordinates}]; a texture with a separate sampler is not supported");
    }
    const struct operand_text *list = elements(&written->sub[1], &count);
    if (count != (wanted == 3 ? 4 : wanted)) { /* three coordinates are written as four */
        decode_fail(d, "%u coordinates; expected %u", count, wanted == 3 ? 4 : wanted);
    }
    emit(d, src(d, &written->sub[0], T_U64));
    for (uint32_t i = 0; i < wanted; i++) {
        emit(d, src(d, &list[i], layered && i == 0 ? T_U32 : coordinate));
    }
    d->insn->texture.dimensions = dimensions;
    d->insn->texture.layered = layered;
    d->insn->texture.real = coordinate == T_F32;
}

static void emit_four(struct decoder *d) {
    if (emit_vector(d, &d->op[0], true, T_B32) != 4 || d->op[0].second != NULL) {
        decode_fail(d, "expected a vector of four, without a predicate");
    }
}

/* Takes .v4, the type of the result and that of the coordinates. */
static unsigned take_types(struct decoder *d) {
    const bool four = mod(d, "v4");
    d->insn->type = (uint8_t)mod_type(d);
    const unsigned coordinate = mod_type(d);
    if (!four || (d->insn->type != T_F32 && d->insn->type != T_U32 && d->insn->type != T_S32) ||
        (coordinate != T_F32 && coordinate != T_S32)) {
        decode_fail(d, "expected .v4, a result of .f32, .u32 or .s32, and coordinates of .f32 or .s32");
    }
    d->insn->cls = CL_MEM_GLOBAL;
    return coordinate;
}

/* There are no mipmaps, so a level of detail changes nothing. */
void decode_tex(struct decoder *d) {
    static const char *const levels[] = {"base", "level", "grad"};
    static const int more[] = {0, 1, 2};
    const int level = mod_of(d, COUNTED(levels));
    const unsigned coordinate = take_types(d);
    need_operands(d, 2, 2 + (level < 0 ? 0 : more[level]));
    emit_four(d);
    emit_place(d, &d->op[1], coordinate);
    d->insn->texture.operation = TEXTURE_FETCH;
    d->insn->fn = exec_texture;
}

void decode_tld4(struct decoder *d) {
    static const char *const components[] = {"r", "g", "b", "a"};
    const int component = mod_of(d, COUNTED(components));
    const unsigned coordinate = take_types(d);
    need_operands(d, 2, 2);
    emit_four(d);
    emit_place(d, &d->op[1], coordinate);
    if (component < 0 || coordinate != T_F32 || d->insn->texture.dimensions != 2) {
        decode_fail(d, "expected a component of a two-dimensional texture");
    }
    d->insn->texture.component = (uint8_t)component;
    d->insn->texture.operation = TEXTURE_GATHER;
    d->insn->fn = exec_texture;
}

void decode_query(struct decoder *d) {
    static const char *const sizes[] = {"width", "height", "depth", "array_size"};
    const int size = mod_of(d, COUNTED(sizes));
    if (size < 0 || mod_type(d) != T_B32) {
        decode_fail(d, "only width, height, depth and array_size are supported");
    }
    need_operands(d, 2, 2);
    if (d->op[1].kind != PO_ADDRESS || d->op[1].count != 1) {
        decode_fail(d, "expected [object]");
    }
    emit_dst(d, &d->op[0], T_B32);
    emit(d, src(d, &d->op[1].sub[0], T_U64));
    d->insn->texture.component = (uint8_t)size;
    d->insn->texture.of_surface = named(d, "suq");
    d->insn->texture.operation = TEXTURE_QUERY;
    d->insn->fn = exec_texture;
}

void decode_surface(struct decoder *d) {
    const bool write = named(d, "sust");
    static const char *const vectors[] = {"v2", "v4"};
    static const char *const outsides[] = {"trap", "clamp", "zero"}; /* enum outside */
    if (!mod(d, "b")) {
        decode_fail(d, "only .b is supported");
    }
    skip_cache_hints(d);
    const int vector = mod_of(d, COUNTED(vectors)), outside = mod_of(d, COUNTED(outsides));
    const unsigned type = mod_type(d);
    const uint32_t bytes = ptx_type_bytes(type), wanted = vector < 0 ? 1 : 2u << vector;
    uint32_t count;
    need_operands(d, 2, 2);
    const struct operand_text *list = elements(&d->op[write], &count);
    if (count != wanted || bytes > 8 || bytes * count > 16) {
        decode_fail(d, "%u elements of .%s; expected %u", count, ptx_type_name(type), wanted);
    }
    for (uint32_t i = 0; i < count && !write; i++) {
        emit_dst(d, &list[i], T_NONE);
    }
    emit_place(d, &d->op[!write], T_S32);
    for (uint32_t i = 0; i < count && write; i++) {
        emit(d, src_any(d, &list[i], type));
    }
    d->insn->texture.bytes = (uint8_t)bytes;
    d->insn->texture.elements = (uint8_t)count;
    d->insn->texture.outside = (uint8_t)(outside < 0 ? OUTSIDE_TRAP : outside);
    d->insn->texture.of_surface = true;
    d->insn->cls = CL_MEM_GLOBAL;
    d->insn->texture.operation = TEXTURE_SURFACE;
    d->insn->fn = exec_texture;
}
