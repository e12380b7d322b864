/* Reads the grouped GEMM's arguments from Python objects (python_groups.h). */
#include "python_groups.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "board_tensors.h"
#include "checks.h"

enum { SIZES = 4 };

/* A tuple or a list. */
struct sequence {
    void *object;
    intptr_t size; /* -1 if the object is neither */
    void *(*item)(void *, intptr_t);
};

static void *type_of(const struct python_functions *python, void *object) {
    void *type = python->PyObject_Type(object);
    python->Py_DecRef(type); /* the object itself keeps its type alive */
    return type;
}

static struct sequence sequence_of(const struct python_functions *python, void *object) {
    void *type = type_of(python, object);
    if (type == python->PyTuple_Type) {
        return (struct sequence){object, python->PyTuple_Size(object), python->PyTuple_GetItem};
    }
    if (type == python->PyList_Type) {
        return (struct sequence){object, python->PyList_Size(object), python->PyList_GetItem};
    }
    return (struct sequence){object, -1, NULL};
}

static struct sequence member(const struct python_functions *python, struct sequence of, intptr_t index) {
    return sequence_of(python, of.item(of.object, index));
}

/* State that all groups of a call share. */
struct call {
    const struct python_functions *python;
    bool any;                   /* a tensor has been read */
    struct torch_tensor device; /* the first one, on whose device all must be */
};

static enum torch_dtype dtype_of(const struct python_functions *python, int32_t number) {
    return number == python->fp4    ? DTYPE_float4_e2m1fn_x2
           : number == python->e4m3 ? DTYPE_float8_e4m3fn
           : number == python->fp16 ? DTYPE_float16
                                    : DTYPES;
}

/* The at::Tensor of an object of exactly torch's type. */
static bool find_tensor(const struct python_functions *python, void *object, struct torch_tensor *tensor) {
    int32_t dtype = 0, device = 0;
    int64_t *sizes = NULL, *strides = NULL;
    if (type_of(python, object) != python->tensor_type) {
        return false;
    }
    tensor->name = "";
    tensor->handle = (unsigned char *)object + python->tensor_offset;
    if (python->aoti_torch_get_dim(tensor->handle, &tensor->dimensions) != 0 ||
        python->aoti_torch_get_dtype(tensor->handle, &dtype) != 0 ||
        python->aoti_torch_get_sizes(tensor->handle, &sizes) != 0 ||
        python->aoti_torch_get_strides(tensor->handle, &strides) != 0 ||
        python->aoti_torch_get_device_type(tensor->handle, &device) != 0 ||
        python->aoti_torch_get_device_index(tensor->handle, &tensor->device_index) != 0) {
        return false;
    }
    tensor->sizes = sizes;
    tensor->strides = strides;
    tensor->dtype = dtype_of(python, dtype);
    tensor->device = device == python->cpu ? TORCH_CPU : device == python->cuda ? TORCH_CUDA : TORCH_ELSEWHERE;
    return true;
}

/* The address of an object's values, if it is the tensor that its role requires and on the call's device. */
static bool read_tensor(struct call *call, void *object, enum board_role role, const struct board_sizes *sizes,
                        void **address) {
    const struct python_functions *python = call->python;
    const struct torch_shape shape = board_shape(role, sizes, CUSTOM_KERNEL_SCALES_BLOCKED);
    struct torch_tensor tensor;
    int64_t held = 0, offset = 0;
    if (!find_tensor(python, object, &tensor)) {
        return false;
    }
    if (!call->any) {
        call->any = true;
        call->device = tensor;
    }
    if (check_tensor(&tensor, 1U << board_dtype(role), &shape, &call->device) != CUSTOM_KERNEL_OK) {
        return false;
    }
    if (role == BOARD_C && /* c is written, so its storage, which may have been shrunk, must hold all of it */
        (python->aoti_torch_get_storage_size(tensor.handle, &held) != 0 ||
         python->aoti_torch_get_storage_offset(tensor.handle, &offset) != 0 ||
         check_storage(&tensor, held - offset * dtype_bytes(tensor.dtype)) != CUSTOM_KERNEL_OK)) {
        return false;
    }
    return python->aoti_torch_get_data_ptr(tensor.handle, address) == 0;
}

static bool read_sizes(const struct python_functions *python, struct sequence sizes,
                       struct custom_kernel_group *group) {
    int64_t values[SIZES];
    for (intptr_t i = 0; i < SIZES; i++) {
        void *value = sizes.item(sizes.object, i);
        if (type_of(python, value) != python->PyLong_Type) { /* __index__ of another type could run any code */
            return false;
        }
        values[i] = python->PyLong_AsLongLong(value);
    }
    *group = (struct custom_kernel_group){.m = values[0], .n = values[1], .k = values[2]};
    return group->m >= 0 && group->n >= 1 && group->k >= 1 && group->k % K_MULTIPLE_ELEMS == 0 &&
           values[3] == 1;
}

static bool read_group(struct call *call, struct sequence abc, struct sequence factors, struct sequence sizes,
                       struct custom_kernel_group *group) {
    void *a, *b, *c, *sfa, *sfb;
    if (abc.size != 3 || factors.size != 2 || sizes.size != SIZES || !read_sizes(call->python, sizes, group)) {
        return false;
    }
    const struct board_sizes all = {group->m, group->n, group->k, 1, group->n};
    if (!read_tensor(call, abc.item(abc.object, 0), BOARD_A, &all, &a) ||
        !read_tensor(call, abc.item(abc.object, 1), BOARD_B, &all, &b) ||
        !read_tensor(call, abc.item(abc.object, 2), BOARD_C, &all, &c) ||
        !read_tensor(call, factors.item(factors.object, 0), BOARD_SFA, &all, &sfa) ||
        !read_tensor(call, factors.item(factors.object, 1), BOARD_SFB, &all, &sfb)) {
        return false;
    }
    group->a = a;
    group->b = b;
    group->c = c;
    group->sfa = sfa;
    group->sfb = sfb;
    return true;
}

/* Fills `groups`, which has room for `most`, and returns their number; 0 if something is not as expected. */
static int64_t read_groups(struct call *call, void *data, int64_t most, struct custom_kernel_group *groups) {
    const struct python_functions *python = call->python;
    struct sequence lists = sequence_of(python, data);
    if (lists.size != 4) {
        return 0;
    }
    struct sequence abc = member(python, lists, 0), factors = member(python, lists, 2),
                    sizes = member(python, lists, 3);
    if (abc.size < 1 || abc.size > most || factors.size != abc.size || sizes.size != abc.size) {
        return 0;
    }
    for (intptr_t i = 0; i < abc.size; i++) {
        if (!read_group(call, member(python, abc, i), member(python, factors, i), member(python, sizes, i),
                        &groups[i])) {
            return 0;
        }
    }
    return abc.size;
}

static int32_t run_groups(const struct python_functions *python, void *data, void *queue, int64_t most,
                          struct custom_kernel_group *groups) {
    struct call call = {.python = python};
    int64_t count = read_groups(&call, data, most, groups);
    if (python->PyErr_Occurred() != NULL) {
        python->PyErr_Clear();
        return NOT_AS_EXPECTED;
    }
    if (count == 0 || call.device.device == TORCH_ELSEWHERE) {
        return NOT_AS_EXPECTED;
    }
    const struct custom_kernel_grouped_args args = {
        .struct_bytes = sizeof args,
        .backend = CUSTOM_KERNEL_BACKEND_AUTO,
        .device = call.device.device == TORCH_CPU ? CUSTOM_KERNEL_DEVICE_HOST : call.device.device_index,
        .scale_layout = CUSTOM_KERNEL_SCALES_BLOCKED,
        .groups = count,
        .group_bytes = sizeof *groups,
        .group = groups,
        .queue = queue,
    };
    void *state = python->PyEval_SaveThread();
    int32_t status = custom_kernel_grouped(&args);
    python->PyEval_RestoreThread(state);
    return status;
}

/* The number of groups, if the data are lists. */
static int64_t groups_of(const struct python_functions *python, void *data) {
    const struct sequence lists = sequence_of(python, data);
    return lists.size > 0 ? member(python, lists, 0).size : 0;
}

int32_t custom_kernel_grouped_python(const struct python_functions *python, void *data, void *queue) {
    struct custom_kernel_group few[GROUPS_AT_ONCE], *groups = few;
    if (python->struct_bytes != sizeof *python) {
        return NOT_AS_EXPECTED;
    }
    const int64_t count = groups_of(python, data), most = count > GROUPS_AT_ONCE ? count : GROUPS_AT_ONCE;
    if (most > GROUPS_AT_ONCE && most <= CUSTOM_KERNEL_MAX_GROUPS) {
        groups = malloc((size_t)most * sizeof *groups);
    }
    if (most > CUSTOM_KERNEL_MAX_GROUPS || groups == NULL) {
        return NOT_AS_EXPECTED;
    }
    const int32_t status = run_groups(python, data, queue, most, groups);
    if (groups != few) {
        free(groups);
    }
    return status;
}
