#include "torch_register.h"

#include <stdio.h>
#include <string.h>

#include "torch_operator.h"

/* The version of torch's stable interface that the operators are written for. */
#define STABLE_VERSION ((uint64_t)2 << 56 | (uint64_t)10 << 48)

static struct torch_operator *const operators[] = {
#define X(name) &torch_##name,
    TORCH_OPERATORS(X)
#undef X
};
enum { OPERATORS = sizeof operators / sizeof *operators };

static const struct {
    const char *name;
    enum argument_type type;
} types[] = {
    {"Tensor", ARGUMENT_TENSOR},
    {"int", ARGUMENT_INTEGER},
    {"float", ARGUMENT_FLOAT},
};
enum { TYPES = sizeof types / sizeof *types };

/* "Tensor(a!)? name=default" */
static bool parse_parameter(const char *text, struct parameter *parameter) {
    int type = 0;
    while (type < TYPES && strncmp(text, types[type].name, strlen(types[type].name)) != 0) {
        type++;
    }
    const char *name = strchr(text, ' ');
    if (type == TYPES || name == NULL) {
        return false;
    }
    const size_t length = strcspn(name + 1, "=,)");
    if (length >= sizeof parameter->name) {
        return false;
    }
    *parameter = (struct parameter){.type = types[type].type, .optional = name[-1] == '?'};
    memcpy(parameter->name, name + 1, length);
    return true;
}

/* Reads the schema "name(parameters) -> results" of an operator. */
static bool parse(struct torch_operator *operator) {
    const char *text = strchr(operator->schema, '(') + 1;
    const char *end = strstr(text, ") -> ");
    operator->parameters = 0;
    while (text < end) {
        if (operator->parameters == TORCH_MAX_ARGUMENTS ||
            !parse_parameter(text, &operator->parameter[operator->parameters])) {
            return false;
        }
        operator->parameters++;
        const char *comma = strstr(text, ", ");
        text = comma != NULL && comma < end ? comma + 2 : end;
    }
    return true;
}

const char *custom_kernel_torch_schema(int32_t index) {
    return index >= 0 && index < OPERATORS ? operators[index]->schema : NULL;
}

/* torch's handles of the namespace; they live as long as the process. */
static struct {
    void *definitions, *cpu, *cuda;
} libraries;

static int32_t prepare(void) {
    const char *missing = libraries.cuda != NULL ? NULL : torch_shim_load();
    if (missing != NULL) {
        return set_message(CUSTOM_KERNEL_ERROR_UNAVAILABLE,
                           "the loaded torch has no %s; expected torch 2.11 or later", missing);
    }
    if (libraries.cuda == NULL &&
        (torch_shim.aoti_torch_library_init_fragment(TORCH_NAMESPACE, __FILE__, 0, &libraries.definitions) !=
             0 ||
         torch_shim.aoti_torch_library_init_impl(TORCH_NAMESPACE, "CPU", __FILE__, 0, &libraries.cpu) != 0 ||
         torch_shim.aoti_torch_library_init_impl(TORCH_NAMESPACE, "CUDA", __FILE__, 0, &libraries.cuda) != 0)) {
        return set_message(CUSTOM_KERNEL_ERROR_UNAVAILABLE, "torch refused the namespace " TORCH_NAMESPACE);
    }
    return CUSTOM_KERNEL_OK;
}

int32_t custom_kernel_torch_register(int32_t index) {
    if (index < 0 || index >= OPERATORS) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "index is %d; expected 0 to %d", index, OPERATORS - 1);
    }
    struct torch_operator *operator = operators[index];
    char name[64];
    RETURN_IF_FAILED(prepare());
    (void)snprintf(name, sizeof name, TORCH_NAMESPACE "::%.*s", (int)strcspn(operator->schema, "("),
                   operator->schema);
    if (!parse(operator) || torch_shim.aoti_torch_library_def(libraries.definitions, operator->schema) != 0 ||
        torch_shim.torch_library_impl(libraries.cpu, name, operator->boxed, STABLE_VERSION) != 0 ||
        torch_shim.torch_library_impl(libraries.cuda, name, operator->boxed, STABLE_VERSION) != 0) {
        return set_message(CUSTOM_KERNEL_ERROR_DEVICE, "torch refused the operator %s", operator->schema);
    }
    return CUSTOM_KERNEL_OK;
}

int32_t custom_kernel_torch_check(int32_t index, const struct described_argument *arguments) {
    struct torch_call call = {.operator = operators[index]};
    for (int i = 0; i < call.operator->parameters; i++) {
        const struct parameter *parameter = &call.operator->parameter[i];
        struct torch_tensor *tensor = &call.argument[i].tensor;
        *tensor = described_tensor(&arguments[i].tensor);
        tensor->name = parameter->name;
        if (parameter->type == ARGUMENT_TENSOR && !parameter->optional && tensor->handle == NULL) {
            return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s is None; expected a tensor", parameter->name);
        }
        call.argument[i].integer = arguments[i].integer;
        call.argument[i].number = arguments[i].number;
    }
    return call.operator->run(&call);
}
