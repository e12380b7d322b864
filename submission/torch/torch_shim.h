/* The functions of torch's stable C interface that the operators call, found in the torch that the process has
 * loaded.  Names and meanings: torch/csrc/inductor/aoti_torch/c/shim.h and torch/csrc/stable/c/shim.h, where a
 * `tensor` is an AtenTensorHandle.  Functions that return int32_t return 0 for success.  Internal. */
#ifndef TORCH_TORCH_SHIM_H
#define TORCH_TORCH_SHIM_H

#include "../core/torch_tensor.h"

/* X(result, name, parameters) */
#define TORCH_FUNCTIONS(X)                                                                                     \
    X(int32_t, aoti_torch_is_defined, (void *tensor, bool *is_defined))                                        \
    X(int32_t, aoti_torch_get_dim, (void *tensor, int64_t *dimensions))                                        \
    X(int32_t, aoti_torch_get_sizes, (void *tensor, int64_t **sizes))                                          \
    X(int32_t, aoti_torch_get_strides, (void *tensor, int64_t **strides))                                      \
    X(int32_t, aoti_torch_get_dtype, (void *tensor, int32_t *dtype))                                           \
    X(int32_t, aoti_torch_get_device_type, (void *tensor, int32_t *type))                                      \
    X(int32_t, aoti_torch_get_device_index, (void *tensor, int32_t *index))                                    \
    X(int32_t, aoti_torch_get_data_ptr, (void *tensor, void **address))                                        \
    X(int32_t, aoti_torch_get_storage_size, (void *tensor, int64_t *bytes))                                    \
    X(int32_t, aoti_torch_get_storage_offset, (void *tensor, int64_t *elements))                               \
    X(int32_t, aoti_torch_delete_tensor_object, (void *tensor))                                                \
    X(int32_t, aoti_torch_empty_strided,                                                                       \
      (int64_t dimensions, const int64_t *sizes, const int64_t *strides, int32_t dtype, int32_t device_type,   \
       int32_t device_index, void **tensor))                                                                   \
    X(int32_t, aoti_torch_create_tensor_from_blob,                                                             \
      (void *data, int64_t dimensions, const int64_t *sizes, const int64_t *strides, int64_t storage_offset,   \
       int32_t dtype, int32_t device_type, int32_t device_index, void **tensor))                               \
    X(int32_t, aoti_torch_copy_, (void *into, void *from, int32_t non_blocking))                               \
    X(int32_t, aoti_torch_zero_, (void *tensor))                                                               \
    X(int32_t, aoti_torch_device_type_cpu, (void))                                                             \
    X(int32_t, aoti_torch_device_type_cuda, (void))                                                            \
    X(int32_t, aoti_torch_library_init_fragment,                                                               \
      (const char *name_space, const char *file, uint32_t line, void **library))                               \
    X(int32_t, aoti_torch_library_init_impl,                                                                   \
      (const char *name_space, const char *key, const char *file, uint32_t line, void **library))              \
    X(int32_t, aoti_torch_library_def, (void *library, const char *schema))                                    \
    X(int32_t, torch_library_impl,                                                                             \
      (void *library, const char *name, void (*function)(uint64_t *, uint64_t, uint64_t), uint64_t version))   \
    X(void, aoti_torch_check,                                                                                  \
      (bool condition, const char *function, const char *file, uint32_t line, const char *message))

struct torch_shim {
#define X(result, name, parameters) result(*name) parameters;
    TORCH_FUNCTIONS(X)
#undef X
    /* The current queue of a CUDA device; NULL in a torch without CUDA. */
    int32_t (*current_queue)(int32_t device, void **queue);
    void (*delete_box)(void *box); /* frees the memory of an optional argument's value */
    int32_t dtypes[DTYPES];        /* torch's number of each enum torch_dtype */
    int32_t cpu, cuda;             /* torch's numbers of device types */
};

/* Filled by torch_shim_load(); used only after that has succeeded. */
extern struct torch_shim torch_shim;

/* Finds the functions.  Returns NULL, or the name of the first one that the loaded torch lacks. */
const char *torch_shim_load(void);

#endif
