/* custom_kernel_grouped() on Python objects, for the shim group_submission.py.  In Python, reading the forty
 * tensors of a call takes five times as long.  The library links with neither Python nor torch: the shim passes
 * the functions to call, all from Python's stable ABI and torch's stable C interface, and the place of the
 * at::Tensor in a tensor object, which the shim has verified. */
#ifndef CORE_PYTHON_GROUPS_H
#define CORE_PYTHON_GROUPS_H

#include <stdint.h>

#include "../custom_kernel.h"

/* Members are named as Python and torch name them (torch/csrc/inductor/aoti_torch/c/shim.h, whose functions
 * return 0 for success); `tensor` is the address of an at::Tensor. */
struct python_functions {
    uint32_t struct_bytes;
    uint32_t tensor_offset;             /* bytes from a tensor object to its at::Tensor */
    int32_t fp4, e4m3, fp16, cpu, cuda; /* torch's numbers for dtypes and device types */
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
    int32_t (*aoti_torch_get_strides)(void *tensor, int64_t **strides); /* counted in elements */
    int32_t (*aoti_torch_get_dtype)(void *tensor, int32_t *type);
    int32_t (*aoti_torch_get_device_type)(void *tensor, int32_t *type);
    int32_t (*aoti_torch_get_device_index)(void *tensor, int32_t *index);
    int32_t (*aoti_torch_get_storage_size)(void *tensor, int64_t *bytes);
    int32_t (*aoti_torch_get_storage_offset)(void *tensor, int64_t *elements);
};

/* Result of custom_kernel_grouped_python() if an object is not exactly as expected. */
#define NOT_AS_EXPECTED (-1)

/* Computes the groups of `data`, the leaderboard's four lists (group_gemm/task.md), with blocked scale factors
 * and the automatic backend.  The caller holds the interpreter's lock; it is released while the groups are
 * computed.
 *
 * Every list must be a tuple or a list, every size an int, and every tensor a torch.Tensor with the dtype,
 * shape, strides and device that its group requires; c's storage must hold all of it.  Otherwise the call
 * returns NOT_AS_EXPECTED, has written nothing and leaves no exception set; the shim then finds out what is
 * wrong.  Not checked here: torch's negative bit. */
CUSTOM_KERNEL_API int32_t custom_kernel_grouped_python(const struct python_functions *python, void *data,
                                                       void *queue);

#endif
