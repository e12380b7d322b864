/* Validation of custom_kernel_grouped()'s arguments.  The caller's structs are copied before the checks, so
 * that the values that were checked are the values that run. */
#include <stdlib.h>

#include "checks.h"
#include "validate.h"

static const struct struct_type args_type = {
    .name = "custom_kernel_grouped_args",
    .bytes = sizeof(struct custom_kernel_grouped_args),
    .oldest_bytes = offsetof(struct custom_kernel_grouped_args, queue),
    .oldest_lacks = "queue",
};

static const struct struct_type group_type = {
    .name = "custom_kernel_group",
    .bytes = sizeof(struct custom_kernel_group),
    .oldest_bytes = sizeof(struct custom_kernel_group),
};

enum { C = 4, TENSORS }; /* a group's tensors: inputs 0 to 3, then c */

/* The tensors of all groups with m > 0. */
struct tensors {
    int64_t groups;
    struct tensor (*inputs)[C];
    struct tensor *outputs;
};

static int32_t check_args(const struct custom_kernel_grouped_args *args) {
    RETURN_IF_FAILED(check_enums(args->backend, args->device, args->scale_layout, args->queue));
    if (args->groups < 1 || args->groups > CUSTOM_KERNEL_MAX_GROUPS) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "groups is %lld; expected 1 to %d",
                           (long long)args->groups, CUSTOM_KERNEL_MAX_GROUPS);
    }
    if (args->reserved != 0) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "reserved is %u; expected 0", args->reserved);
    }
    if (args->group == NULL) {
        return set_message(CUSTOM_KERNEL_ERROR_NULL_POINTER,
                           "group is NULL; expected %lld structs custom_kernel_group", (long long)args->groups);
    }
    return CUSTOM_KERNEL_OK;
}

static int32_t read_group(const struct custom_kernel_grouped_args *args, int32_t index,
                          struct custom_kernel_group *group) {
    const unsigned char *from = (const unsigned char *)args->group + (size_t)index * args->group_bytes;
    const struct member_name argument = member_name(index, "");
    RETURN_IF_FAILED(read_struct(argument.text, "group_bytes", &group_type, from, args->group_bytes, group));
    RETURN_IF_FAILED(check_extent(index, "m", group->m, 0));
    RETURN_IF_FAILED(check_extent(index, "n", group->n, 1));
    RETURN_IF_FAILED(check_extent(index, "k", group->k, 1));
    return check_k(index, group->k);
}

/* Checks the tensors of a group with m > 0 and adds them to *tensors. */
static int32_t add_tensors(const struct custom_kernel_group *group, int32_t index, int32_t scale_layout,
                           struct tensors *tensors) {
    const int64_t scale_rows = scale_rows_unit(scale_layout),
                  row_scales = scale_row_bytes(scale_layout, group->k / NVFP4_GROUP_ELEMS);
    struct {
        struct tensor tensor;
        int64_t rows, rows_unit, row_bytes;
    } all[TENSORS] = {
        {{"a", group->a, 0, index}, group->m, 1, group->k / 2},
        {{"b", group->b, 0, index}, group->n, 1, group->k / 2},
        {{"sfa", group->sfa, 0, index}, group->m, scale_rows, row_scales},
        {{"sfb", group->sfb, 0, index}, group->n, scale_rows, row_scales},
        {{"c", group->c, 0, index}, group->m, 1, output_row_bytes(group->n)},
    };
    for (int i = 0; i < TENSORS; i++) {
        if (!tensor_bytes(all[i].rows, all[i].rows_unit, all[i].row_bytes, 1, &all[i].tensor.bytes)) {
            return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                               "%s of m %lld, n %lld, k %lld has 2^63 bytes or more; expected fewer",
                               member_name(index, all[i].tensor.name).text, (long long)group->m,
                               (long long)group->n, (long long)group->k);
        }
        RETURN_IF_FAILED(check_pointer(&all[i].tensor));
        if (i < C) {
            tensors->inputs[tensors->groups][i] = all[i].tensor;
        }
    }
    tensors->outputs[tensors->groups++] = all[C].tensor;
    return CUSTOM_KERNEL_OK;
}

static int32_t overlap_message(const struct tensor *output, const struct tensor *other) {
    return set_message(
        CUSTOM_KERNEL_ERROR_ARGUMENT,
        "%s at %p with %lld bytes overlaps %s at %p; expected outputs that overlap no other tensor",
        member_name(output->group, output->name).text, output->pointer, (long long)output->bytes,
        member_name(other->group, other->name).text, other->pointer);
}

static int by_address(const void *x, const void *y) {
    uintptr_t a = (uintptr_t)((const struct tensor *)x)->pointer,
              b = (uintptr_t)((const struct tensor *)y)->pointer;
    return (a > b) - (a < b);
}

/* The last of `count` outputs, sorted and disjoint, that starts before address `end`; NULL if none does. */
static const struct tensor *last_before(const struct tensor *outputs, int64_t count, uintptr_t end) {
    int64_t low = 0;
    while (low < count) {
        int64_t middle = low + (count - low) / 2;
        if ((uintptr_t)outputs[middle].pointer < end) {
            low = middle + 1;
        } else {
            count = middle;
        }
    }
    return low > 0 ? &outputs[low - 1] : NULL;
}

/* Sorts the outputs first, so that the cost grows with groups * log(groups) and not with groups squared. */
static int32_t check_overlaps(struct tensors *tensors) {
    struct tensor *outputs = tensors->outputs;
    qsort(outputs, (size_t)tensors->groups, sizeof *outputs, by_address);
    for (int64_t i = 1; i < tensors->groups; i++) {
        if (overlap(&outputs[i - 1], &outputs[i])) {
            return overlap_message(&outputs[i], &outputs[i - 1]);
        }
    }
    for (int64_t i = 0; i < tensors->groups; i++) {
        for (int j = 0; j < C; j++) {
            const struct tensor *input = &tensors->inputs[i][j];
            uintptr_t end = (uintptr_t)input->pointer + (uintptr_t)input->bytes;
            const struct tensor *output = last_before(outputs, tensors->groups, end);
            if (output != NULL && overlap(output, input)) {
                return overlap_message(output, input);
            }
        }
    }
    return CUSTOM_KERNEL_OK;
}

/* Fills groups[], which has room for all, and *count. */
static int32_t read_groups(const struct custom_kernel_grouped_args *args, struct tensors *tensors,
                           struct problem *groups, int64_t *count) {
    tensors->groups = 0;
    for (int32_t i = 0; i < args->groups; i++) {
        struct custom_kernel_group group;
        RETURN_IF_FAILED(read_group(args, i, &group));
        if (group.m == 0) {
            continue;
        }
        groups[tensors->groups] = (struct problem){
            .m = group.m,
            .n = group.n,
            .k = group.k,
            .l = 1,
            .a = group.a,
            .b1 = group.b,
            .sfa = group.sfa,
            .sfb1 = group.sfb,
            .c = group.c,
            .scale_layout = args->scale_layout,
            .device = args->device,
            .queue = args->queue,
            .group = i,
        };
        RETURN_IF_FAILED(add_tensors(&group, i, args->scale_layout, tensors));
    }
    *count = tensors->groups;
    return check_overlaps(tensors);
}

int32_t validate_grouped(const struct custom_kernel_grouped_args *caller_args,
                         struct problem few[GROUPS_AT_ONCE], struct problem **groups, int64_t *count,
                         int32_t *backend, int32_t *device) {
    struct custom_kernel_grouped_args args;
    struct tensor inputs[GROUPS_AT_ONCE][C], outputs[GROUPS_AT_ONCE];
    *groups = few;
    if (caller_args == NULL) {
        return set_message(CUSTOM_KERNEL_ERROR_NULL_POINTER,
                           "args is NULL; expected a struct custom_kernel_grouped_args");
    }
    RETURN_IF_FAILED(
        read_struct("args", "args->struct_bytes", &args_type, caller_args, caller_args->struct_bytes, &args));
    RETURN_IF_FAILED(check_args(&args));
    *backend = args.backend;
    *device = args.device;
    if (args.groups <= GROUPS_AT_ONCE) {
        struct tensors tensors = {0, inputs, outputs};
        return read_groups(&args, &tensors, few, count);
    }
    const size_t room = (size_t)args.groups;
    struct tensors tensors = {0, malloc(room * sizeof *inputs), malloc(room * sizeof *outputs)};
    *groups = malloc(room * sizeof **groups);
    const int32_t status =
        tensors.inputs != NULL && tensors.outputs != NULL && *groups != NULL
            ? read_groups(&args, &tensors, *groups, count)
            : set_message(CUSTOM_KERNEL_ERROR_OUT_OF_MEMORY, "out of memory: the host has none for %lld groups",
                          (long long)args.groups);
    free(tensors.inputs);
    free(tensors.outputs);
    return status;
}
