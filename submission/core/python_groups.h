/* The grouped GEMM of a call's Python objects, for the shim group_submission.py: reading forty tensors takes
 * Python itself five times as long.  The library knows neither Python nor torch: the shim tells it which
 * functions it may call, all of Python's stable ABI and of torch's stable C interface, and where in a tensor's
 * object, which the shim has looked at, torch's own tensor lies. */
#ifndef CORE_PYTHON_GROUPS_H
#define CORE_PYTHON_GROUPS_H

#include <stdint.h>

#include "../custom_kernel.h"

/* By the names that Python and torch have for them (torch/csrc/inductor/aoti_torch/c/shim.h, which returns 0
 * for success); `tensor` is the address of an at::Tensor. */
struct python_functions {
    uint32_t struct_bytes;
    uint32_t tensor_offset;             /* bytes from a tensor's object to its at::Tensor */
    int32_t fp4, e4m3, fp16, cpu, cuda; /* torch's numbers of types and devices */
    int32_t reserved;                   /* 0 */
    const void *PyTuple_Type, *PyList_Type, *PyLong_Type, *tensor_type;
    void *(*PyObject_Type)(void *object);
    void (*Py_DecRef)(void *object);
    intptr_t (*PyTuple_Size)(void *tuple);
    void *(*PyTuple_GetItem)(void *tuple, intptr_t index);
    intptr_t (*PyList_Size)(void *list);
    void *(*PyList_GetItem)(void *list, intptr_t index);
    long long (*PyLong_AsLongLong)(void *object);
    void *(*PyErr_Occurred)(void);
    void (*PyErr_Clear)(void);
    void *(*PyEval_SaveThread)(void);
    void (*PyEval_RestoreThread)(void *state);
    int32_t (*aoti_torch_get_data_ptr)(void *tensor, void **address);
    int32_t (*aoti_torch_get_dim)(void *tensor, int64_t *dimensions);
    int32_t (*aoti_torch_get_sizes)(void *tensor, int64_t **sizes);
    int32_t (*aoti_torch_get_strides)(void *tensor, int64_t **strides); /* in elements */
    int32_t (*aoti_torch_get_dtype)(void *tensor, int32_t *type);
    int32_t (*aoti_torch_get_device_type)(void *tensor, int32_t *type);
    int32_t (*aoti_torch_get_device_index)(void *tensor, int32_t *index);
    int32_t (*aoti_torch_get_storage_size)(void *tensor, int64_t *bytes);
    int32_t (*aoti_torch_get_storage_offset)(void *tensor, int64_t *elements);
};

/* What custom_kernel_grouped_python() returns of objects that are not exactly right ones. */
#define NOT_AS_EXPECTED (-1)

/* custom_kernel_grouped() of the leaderboard's four lists (task_group_gemm.md), with the scale factors in
 * blocks and the backend chosen.  The caller has the interpreter's lock, which is given back while the groups
 * are computed.  Every list is a tuple or a list, every size an int, every tensor a torch.Tensor with the type,
 * shape, strides and device that its group asks for and, of c, all of its memory; else NOT_AS_EXPECTED: nothing
 * is written, no exception is left, and what is wrong is for the caller to find.  Not asked: whether a tensor
 * has torch's negative bit. */
CUSTOM_KERNEL_API int32_t custom_kernel_grouped_python(const struct python_functions *python, void *data,
                                                       void *queue);

#endif
