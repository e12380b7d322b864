/* Reads the grouped GEMM's arguments from Python objects (python_groups.h). */
#include "python_groups.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

#include "backend.h"
#include "checks.h"

enum { MAX_DIMENSIONS = 6, SIZES = 4, FP16_BYTES = 2 };

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
    bool any;                          /* the device is known: a tensor has been read */
    int32_t device_type, device_index; /* device of all tensors */
};

/* Required properties of a tensor.  The stride of a dimension of size 1 is not checked. */
struct expected {
    int32_t type;
    int64_t dimensions, shape[MAX_DIMENSIONS], strides[MAX_DIMENSIONS];
};

static bool has_layout(const struct python_functions *python, void *tensor, const struct expected *expected) {
    int64_t dimensions = 0, *shape = NULL, *strides = NULL;
    if (python->aoti_torch_get_dim(tensor, &dimensions) != 0 || dimensions != expected->dimensions ||
        python->aoti_torch_get_sizes(tensor, &shape) != 0 ||
        python->aoti_torch_get_strides(tensor, &strides) != 0) {
        return false;
    }
    bool empty = false, as_strides = true;
    for (int64_t i = 0; i < dimensions; i++) {
        if (shape[i] != expected->shape[i]) {
            return false;
        }
        empty = empty || shape[i] == 0;
        as_strides = as_strides && (shape[i] == 1 || strides[i] == expected->strides[i]);
    }
    return empty || as_strides;
}

/* The at::Tensor of an object that is as expected and on the call's device; else NULL. */
static void *find_tensor(struct call *call, void *object, const struct expected *expected) {
    const struct python_functions *python = call->python;
    int32_t type = 0, device_type = 0, device_index = 0;
    if (type_of(python, object) != python->tensor_type) {
        return NULL;
    }
    void *tensor = (unsigned char *)object + python->tensor_offset;
    if (python->aoti_torch_get_dtype(tensor, &type) != 0 || type != expected->type ||
        !has_layout(python, tensor, expected) ||
        python->aoti_torch_get_device_type(tensor, &device_type) != 0 ||
        python->aoti_torch_get_device_index(tensor, &device_index) != 0) {
        return NULL;
    }
    if (!call->any) {
        call->any = true;
        call->device_type = device_type;
        call->device_index = device_index;
    }
    return device_type == call->device_type && device_index == call->device_index ? tensor : NULL;
}

static bool read_tensor(struct call *call, void *object, const struct expected *expected, void **address) {
    void *tensor = find_tensor(call, object, expected);
    return tensor != NULL && call->python->aoti_torch_get_data_ptr(tensor, address) == 0;
}

/* A tensor (rows, columns, 1) over memory [rows][columns]. */
static struct expected rows_of(int32_t type, int64_t rows, int64_t columns) {
    return (struct expected){type, 3, {rows, columns, 1}, {columns, 1, 1}};
}

/* Blocked scale factors: (32, 4, rows/128, 4, K/64, 1) over memory [rows/128][K/64][32][4][4]. */
static struct expected scales_of(int32_t type, int64_t rows, int64_t k) {
    const int64_t tiles_k = k / SCALE_TILE_K;
    return (struct expected){
        type,
        MAX_DIMENSIONS,
        {SCALE_ENTRIES, SCALE_TILE_ROWS / SCALE_ENTRIES, scale_tile_rows(rows), SCALE_TILE_GROUPS, tiles_k, 1},
        {SCALE_ENTRY_BYTES, SCALE_WORD_BYTES, tiles_k * SCALE_TILE_BYTES, 1, SCALE_TILE_BYTES, 1}};
}

/* c is written, so its storage, which may have been shrunk, must hold all of it. */
static bool read_output(struct call *call, void *object, int64_t m, int64_t n, void **address) {
    const struct python_functions *python = call->python;
    const struct expected expected = rows_of(python->fp16, m, n);
    int64_t bytes = 0, offset = 0;
    void *tensor = find_tensor(call, object, &expected);
    return tensor != NULL && python->aoti_torch_get_storage_size(tensor, &bytes) == 0 &&
           python->aoti_torch_get_storage_offset(tensor, &offset) == 0 &&
           m * n <= bytes / FP16_BYTES - offset && python->aoti_torch_get_data_ptr(tensor, address) == 0;
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
    const struct python_functions *python = call->python;
    const struct expected a_rows = rows_of(python->fp4, group->m, group->k / 2),
                          b_rows = rows_of(python->fp4, group->n, group->k / 2),
                          a_scales = scales_of(python->e4m3, group->m, group->k),
                          b_scales = scales_of(python->e4m3, group->n, group->k);
    if (!read_tensor(call, abc.item(abc.object, 0), &a_rows, &a) ||
        !read_tensor(call, abc.item(abc.object, 1), &b_rows, &b) ||
        !read_output(call, abc.item(abc.object, 2), group->m, group->n, &c) ||
        !read_tensor(call, factors.item(factors.object, 0), &a_scales, &sfa) ||
        !read_tensor(call, factors.item(factors.object, 1), &b_scales, &sfb)) {
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
    if (count == 0 || (call.device_type != python->cpu && call.device_type != python->cuda)) {
        return NOT_AS_EXPECTED;
    }
    const struct custom_kernel_grouped_args args = {
        .struct_bytes = sizeof args,
        .backend = CUSTOM_KERNEL_BACKEND_AUTO,
        .device = call.device_type == python->cpu ? CUSTOM_KERNEL_DEVICE_HOST : call.device_index,
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
