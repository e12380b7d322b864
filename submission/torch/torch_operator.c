#include "torch_operator.h"

#include <string.h>

/* Frees what torch handed over with an argument. */
static void release(const struct parameter *parameter, const struct argument *argument) {
    if (parameter->type == ARGUMENT_TENSOR && argument->tensor.handle != NULL) {
        (void)torch_shim.aoti_torch_delete_tensor_object(argument->tensor.handle);
    }
}

/* Unpacks one value as torch packs it (torch/csrc/stable/stableivalue_conversions.h): in the low bytes of 64
 * bits, or a handle; an optional one is NULL or a box that holds the value.  Takes ownership of handle and box.
 */
static void unpack(const struct parameter *parameter, uint64_t packed, struct argument *argument) {
    argument->tensor.handle = NULL;
    if (parameter->optional) {
        uint64_t *box = (uint64_t *)(uintptr_t)packed; // NOLINT: the interface packs pointers so
        if (box == NULL) {
            return;
        }
        packed = *box;
        torch_shim.delete_box(box);
    }
    switch (parameter->type) {
    case ARGUMENT_TENSOR:
        argument->tensor.handle = (void *)(uintptr_t)packed;
        break;
    case ARGUMENT_INTEGER:
        argument->integer = (int64_t)packed;
        break;
    case ARGUMENT_FLOAT:
        memcpy(&argument->number, &packed, sizeof argument->number);
        break;
    }
}

void torch_operator_run(const struct torch_operator *operator, uint64_t *stack) {
    struct torch_call call; /* not zeroed: it is large, and all that is read is set */
    int32_t status = CUSTOM_KERNEL_OK;
    call.operator = operator;
    call.results = call.copies = 0;
    for (int i = 0; i < operator->parameters; i++) {
        unpack(&operator->parameter[i], stack[i], &call.argument[i]);
    }
    for (int i = 0; i < operator->parameters && status == CUSTOM_KERNEL_OK; i++) {
        struct torch_tensor *tensor = &call.argument[i].tensor;
        tensor->name = operator->parameter[i].name;
        status = tensor->handle != NULL ? read_tensor(tensor->name, tensor->handle, tensor) : CUSTOM_KERNEL_OK;
    }
    if (status == CUSTOM_KERNEL_OK) {
        status = operator->run(&call);
    }
    for (int i = 0; i < operator->parameters; i++) {
        release(&operator->parameter[i], &call.argument[i]);
    }
    for (int i = 0; i < call.copies; i++) {
        (void)torch_shim.aoti_torch_delete_tensor_object(call.copy[i]);
    }
    for (int i = 0; i < call.results; i++) {
        if (status == CUSTOM_KERNEL_OK) {
            stack[i] = (uint64_t)(uintptr_t)call.result[i];
        } else {
            (void)torch_shim.aoti_torch_delete_tensor_object(call.result[i]);
        }
    }
    if (status != CUSTOM_KERNEL_OK) {
        static const char prefix[] = TORCH_NAMESPACE ": ";
        char message[sizeof prefix + 512];
        memcpy(message, prefix, sizeof prefix);
        (void)strncat(message, custom_kernel_message(), sizeof message - sizeof prefix);
        torch_shim.aoti_torch_check(false, operator->schema, __FILE__, 0, message); /* raises */
    }
}
