/* Validation of the arguments of custom_kernel_route() and custom_kernel_combine(). */
#include "../checks.h"
#include "../validate.h"

static int32_t check_type(const char *name, int32_t type, bool with_fp32) {
    if (type == CUSTOM_KERNEL_FP16 || type == CUSTOM_KERNEL_BF16 || (with_fp32 && type == CUSTOM_KERNEL_FP32)) {
        return CUSTOM_KERNEL_OK;
    }
    return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s is %d; expected 0 (fp16)%s", name, type,
                       with_fp32 ? ", 1 (bf16) or 3 (fp32)" : " or 1 (bf16)");
}

static int type_bytes(int32_t type) {
    return type == CUSTOM_KERNEL_FP32 ? (int)sizeof(float) : (int)sizeof(uint16_t);
}

static int32_t check_range(const char *name, int64_t value, int64_t least, int64_t most) {
    if (value >= least && value <= most) {
        return CUSTOM_KERNEL_OK;
    }
    return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s is %lld; expected %lld to %lld", name,
                       (long long)value, (long long)least, (long long)most);
}

static int32_t check_choices(int64_t m, int64_t choices) {
    RETURN_IF_FAILED(check_extent(NO_GROUP, "m", m, 0));
    RETURN_IF_FAILED(check_range("choices", choices, 1, CUSTOM_KERNEL_MAX_CHOICES));
    return check_range("m", m, 0, INT32_MAX / choices);
}

/* ---- route ---- */

static const struct struct_type route_type = {
    .name = "custom_kernel_route_args",
    .bytes = sizeof(struct custom_kernel_route_args),
    .oldest_bytes = sizeof(struct custom_kernel_route_args),
};

static int32_t check_source(const struct custom_kernel_route_args *args) {
    if ((args->logits != NULL) == (args->ids != NULL) && args->m > 0) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "logits and ids are %s; expected one of them",
                           args->ids != NULL ? "both given" : "both NULL");
    }
    if (args->id_bytes == 0) {
        RETURN_IF_FAILED(check_absent("ids", args->ids, "where id_bytes is 0"));
        RETURN_IF_FAILED(check_type("logits_type", args->logits_type, true));
        RETURN_IF_FAILED(check_range("normalize", args->normalize, 0, 1));
        RETURN_IF_FAILED(check_range("routed", args->routed, 1, CUSTOM_KERNEL_MAX_EXPERTS));
        return check_range("choices", args->choices, 1, args->routed);
    }
    if (args->id_bytes != sizeof(int32_t) && args->id_bytes != sizeof(int64_t)) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "id_bytes is %d; expected 4, 8, or 0 with logits",
                           args->id_bytes);
    }
    RETURN_IF_FAILED(check_absent("logits", args->logits, "with ids"));
    RETURN_IF_FAILED(check_absent("weights", args->weights, "with ids"));
    RETURN_IF_FAILED(check_range("logits_type", args->logits_type, 0, 0));
    RETURN_IF_FAILED(check_range("normalize", args->normalize, 0, 0));
    return check_range("routed", args->routed, 1, INT32_MAX);
}

static int32_t check_route_tensors(const struct custom_kernel_route_args *args) {
    enum { OUTPUTS = 3, TENSORS = 7 };
    const int number = sizeof(int32_t), logit = type_bytes(args->logits_type), id = args->id_bytes;
    const int64_t m = args->m, choices = args->choices;
    const bool some = m > 0, logits = some && args->logits != NULL;
    struct member all[TENSORS] = {
        {MEMBER(args, logits), m, 1, args->routed * logit, 1, logit, logits},
        {MEMBER(args, ids), m, 1, choices * id, 1, id, some && !logits},
        {MEMBER(args, map), args->routed, 1, number, 1, number, some && args->map != NULL},
        {MEMBER(args, counts), args->experts, 1, number, 1, number, true},
        {MEMBER(args, rows), m, 1, choices * number, 1, number, some},
        {MEMBER(args, tokens), m, 1, choices * number, 1, number, some},
        {MEMBER(args, weights), m, 1, choices * number, 1, number, logits},
    };
    const struct size sizes[] = {{"m", m}, {"routed", args->routed}, {NULL, 0}};
    return check_members(all, TENSORS, OUTPUTS, sizes);
}

int32_t validate_route(const struct custom_kernel_route_args *caller_args, struct routing *routing,
                       int32_t *backend) {
    struct custom_kernel_route_args args;
    if (caller_args == NULL) {
        return set_message(CUSTOM_KERNEL_ERROR_NULL_POINTER,
                           "args is NULL; expected a struct custom_kernel_route_args");
    }
    RETURN_IF_FAILED(
        read_struct("args", "args->struct_bytes", &route_type, caller_args, caller_args->struct_bytes, &args));
    RETURN_IF_FAILED(check_enums(args.backend, args.device, CUSTOM_KERNEL_SCALES_ROWS, args.queue));
    RETURN_IF_FAILED(check_choices(args.m, args.choices));
    RETURN_IF_FAILED(check_range("experts", args.experts, 1, CUSTOM_KERNEL_MAX_EXPERTS));
    RETURN_IF_FAILED(check_source(&args));
    RETURN_IF_FAILED(check_route_tensors(&args));
    *backend = args.backend;
    *routing = (struct routing){
        .problem = {.m = args.m, .device = args.device, .queue = args.queue},
        .logits = args.logits,
        .ids = args.ids,
        .map = args.map,
        .counts = args.counts,
        .rows = args.rows,
        .tokens = args.tokens,
        .weights = args.weights,
        .routed = args.routed,
        .choices = (int32_t)args.choices,
        .experts = (int32_t)args.experts,
        .logits_type = args.logits_type,
        .id_bytes = args.id_bytes,
        .normalize = args.normalize != 0,
    };
    return CUSTOM_KERNEL_OK;
}

/* ---- combine ---- */

static const struct struct_type combine_type = {
    .name = "custom_kernel_combine_args",
    .bytes = sizeof(struct custom_kernel_combine_args),
    .oldest_bytes = sizeof(struct custom_kernel_combine_args),
};

static int32_t check_combine_tensors(const struct custom_kernel_combine_args *args) {
    enum { OUTPUTS = 3, TENSORS };
    const int number = sizeof(int32_t), wide = POINTER_ALIGNMENT_BYTES, weight = type_bytes(args->weights_type);
    const int64_t m = args->m, choices = args->choices, row_bytes = output_row_bytes(args->n);
    struct member all[TENSORS] = {
        {MEMBER(args, y), m * choices, 1, row_bytes, 1, wide, true},
        {MEMBER(args, rows), m, 1, choices * number, 1, number, true},
        {MEMBER(args, weights), m, 1, choices * weight, 1, weight, args->weights != NULL},
        {MEMBER(args, c), m, 1, row_bytes, 1, wide, true},
    };
    const struct size sizes[] = {{"m", m}, {"choices", choices}, {"n", args->n}, {NULL, 0}};
    return check_members(all, TENSORS, OUTPUTS, sizes);
}

int32_t validate_combine(const struct custom_kernel_combine_args *caller_args, struct combination *combination,
                         int32_t *backend) {
    struct custom_kernel_combine_args args;
    if (caller_args == NULL) {
        return set_message(CUSTOM_KERNEL_ERROR_NULL_POINTER,
                           "args is NULL; expected a struct custom_kernel_combine_args");
    }
    RETURN_IF_FAILED(read_struct("args", "args->struct_bytes", &combine_type, caller_args,
                                 caller_args->struct_bytes, &args));
    RETURN_IF_FAILED(check_enums(args.backend, args.device, CUSTOM_KERNEL_SCALES_ROWS, args.queue));
    RETURN_IF_FAILED(check_type("type", args.type, false));
    RETURN_IF_FAILED(check_type("weights_type", args.weights_type, true));
    RETURN_IF_FAILED(check_choices(args.m, args.choices));
    RETURN_IF_FAILED(check_extent(NO_GROUP, "n", args.n, 1));
    if (args.reserved != 0) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "reserved is %u; expected 0", args.reserved);
    }
    if (args.m > 0) {
        RETURN_IF_FAILED(check_combine_tensors(&args));
    }
    *backend = args.backend;
    *combination = (struct combination){
        .problem = {.m = args.m, .n = args.n, .c = args.c, .device = args.device, .queue = args.queue},
        .y = args.y,
        .weights = args.weights,
        .rows = args.rows,
        .choices = (int32_t)args.choices,
        .type = args.type,
        .weights_type = args.weights_type,
    };
    return CUSTOM_KERNEL_OK;
}
