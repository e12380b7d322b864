/* The entry points of custom_kernel.h: validate, choose a backend, run it. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "environment.h"
#include "pad_k.h"
#include "validate.h"

/* Environment variable that chooses the backend when the caller passes CUSTOM_KERNEL_BACKEND_AUTO. */
#define BACKEND_VARIABLE "NVFP4_BACKEND"
#define DETAIL_BYTES     256
/* The shortest struct accepted from a caller: all members but `detail`. */
#define OLDEST_INFO_BYTES offsetof(struct custom_kernel_backend_info, detail)

/* All backends, built in or not, in the order of automatic choice: the newest chip first. */
static const struct {
    int32_t id;
    const char *name;
    const struct backend *backend; /* NULL: not built */
} backends[] = {
#ifdef NVFP4_HAVE_BLACKWELL
    {CUSTOM_KERNEL_BACKEND_BLACKWELL, "blackwell", &blackwell_backend},
#else
    {CUSTOM_KERNEL_BACKEND_BLACKWELL, "blackwell", NULL},
#endif
#ifdef NVFP4_HAVE_GEFORCE
    {CUSTOM_KERNEL_BACKEND_GEFORCE, "geforce", &geforce_backend},
#else
    {CUSTOM_KERNEL_BACKEND_GEFORCE, "geforce", NULL},
#endif
#ifdef NVFP4_HAVE_HOPPER
    {CUSTOM_KERNEL_BACKEND_HOPPER, "hopper", &hopper_backend},
#else
    {CUSTOM_KERNEL_BACKEND_HOPPER, "hopper", NULL},
#endif
    {CUSTOM_KERNEL_BACKEND_CPU, "cpu", &cpu_backend},
};
enum { BACKENDS = sizeof backends / sizeof *backends };

/* Replaces the choice AUTO by the environment's choice, if there is one. */
static int32_t wanted_backend(int32_t *id) {
    const char *name = *id == CUSTOM_KERNEL_BACKEND_AUTO ? environment(BACKEND_VARIABLE) : NULL;
    if (name == NULL || name[0] == '\0' || strcmp(name, "auto") == 0) {
        return CUSTOM_KERNEL_OK;
    }
    for (int i = 0; i < BACKENDS; i++) {
        if (strcmp(name, backends[i].name) == 0) {
            *id = backends[i].id;
            return CUSTOM_KERNEL_OK;
        }
    }
    return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                       BACKEND_VARIABLE " is '%.64s'; expected cpu, hopper, blackwell, geforce or auto", name);
}

static int32_t choose_named(int32_t id, int32_t device, const struct backend **chosen) {
    int i = 0;
    while (backends[i].id != id) {
        i++;
    }
    const char *name = backends[i].name;
    int on_host = device == CUSTOM_KERNEL_DEVICE_HOST;
    if ((id == CUSTOM_KERNEL_BACKEND_CPU) != on_host) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "backend %s cannot read memory of %s; expected %s",
                           name, on_host ? "the host" : "a CUDA device",
                           on_host ? "tensors on a CUDA device" : "tensors in host memory");
    }
    if (backends[i].backend == NULL) {
        return set_message(CUSTOM_KERNEL_ERROR_UNAVAILABLE, "backend %s is not built into this library", name);
    }
    char detail[DETAIL_BYTES] = "";
    if (!backends[i].backend->available(device, NULL, 0)) {
        (void)backends[i].backend->available(device, detail, sizeof detail);
        return set_message(CUSTOM_KERNEL_ERROR_UNAVAILABLE, "backend %s cannot run here: %s", name, detail);
    }
    *chosen = backends[i].backend;
    return CUSTOM_KERNEL_OK;
}

static int32_t choose_for_device(int32_t device, const struct backend **chosen) {
    if (device == CUSTOM_KERNEL_DEVICE_HOST) {
        *chosen = &cpu_backend;
        return CUSTOM_KERNEL_OK;
    }
    for (int i = 0; i < BACKENDS; i++) {
        const struct backend *backend = backends[i].backend;
        if (backend != NULL && backends[i].id != CUSTOM_KERNEL_BACKEND_CPU &&
            backend->available(device, NULL, 0)) {
            *chosen = backend;
            return CUSTOM_KERNEL_OK;
        }
    }
    char reasons[BACKENDS * DETAIL_BYTES] = ""; /* collected after the search failed: it takes microseconds */
    for (int i = 0; i < BACKENDS; i++) {
        if (backends[i].id == CUSTOM_KERNEL_BACKEND_CPU) {
            continue;
        }
        char detail[DETAIL_BYTES] = "not built";
        if (backends[i].backend != NULL) {
            (void)backends[i].backend->available(device, detail, sizeof detail);
        }
        size_t used = strlen(reasons);
        (void)snprintf(reasons + used, sizeof reasons - used, "%s: %s; ", backends[i].name, detail);
    }
    return set_message(CUSTOM_KERNEL_ERROR_UNAVAILABLE,
                       "no backend can run on CUDA device %d: %scpu: takes tensors in host memory", device,
                       reasons);
}

static int32_t choose_backend(int32_t id, int32_t device, const struct backend **chosen) {
    RETURN_IF_FAILED(wanted_backend(&id));
    return id == CUSTOM_KERNEL_BACKEND_AUTO ? choose_for_device(device, chosen)
                                            : choose_named(id, device, chosen);
}

static int32_t acquire_device(const struct backend *backend, const struct problem *problem, int *before) {
    return backend->acquire_device != NULL ? backend->acquire_device(problem, before) : CUSTOM_KERNEL_OK;
}

static int32_t release_device(const struct backend *backend, const struct problem *problem, int before,
                              int32_t status) {
    return backend->release_device != NULL ? backend->release_device(problem, before, status) : status;
}

static int32_t run(const struct backend *backend, struct problem *problem) {
    int before = 0;
    uint8_t *padded = NULL;
    RETURN_IF_FAILED(acquire_device(backend, problem, &before));
    int32_t status = pad_problem(backend, problem, &padded);
    status = status == CUSTOM_KERNEL_OK ? backend->run(problem) : status;
    return release_device(backend, problem, before, release_padded(backend, problem, padded, status));
}

/* At most GROUPS_AT_ONCE groups. */
static int32_t run_grouped(const struct backend *backend, struct problem *groups, int64_t count) {
    int before = 0;
    int64_t ready = 0;
    uint8_t *padded[GROUPS_AT_ONCE];
    RETURN_IF_FAILED(acquire_device(backend, groups, &before));
    int32_t status = CUSTOM_KERNEL_OK;
    while (ready < count && status == CUSTOM_KERNEL_OK) {
        status = pad_problem(backend, &groups[ready], &padded[ready]);
        ready += status == CUSTOM_KERNEL_OK;
    }
    status = status == CUSTOM_KERNEL_OK ? backend->run_grouped(groups, count) : status;
    for (int64_t i = 0; i < ready; i++) {
        status = release_padded(backend, &groups[i], padded[i], status);
    }
    return release_device(backend, groups, before, status);
}

static int32_t run_extended(const struct backend *backend, struct problem *problem) {
    int before = 0;
    uint8_t *padded = NULL;
    RETURN_IF_FAILED(acquire_device(backend, problem, &before));
    int32_t status = pad_problem(backend, problem, &padded);
    for (int64_t batch = 0; batch < problem->l && status == CUSTOM_KERNEL_OK; batch++) {
        struct extension of_batch;
        struct problem one;
        extended_batch(problem, batch, &one, &of_batch);
        status = backend->run_extended(&one);
    }
    return release_device(backend, problem, before, release_padded(backend, problem, padded, status));
}

static int32_t run_experts(const struct backend *backend, struct experts *experts) {
    int before = 0;
    uint8_t *padded = NULL;
    RETURN_IF_FAILED(acquire_device(backend, &experts->all, &before));
    int32_t status = pad_experts(backend, experts, &padded);
    status = status == CUSTOM_KERNEL_OK ? backend->run_experts(experts) : status;
    return release_device(backend, &experts->all, before,
                          release_padded(backend, &experts->all, padded, status));
}

int32_t custom_kernel(const struct custom_kernel_args *args) {
    struct problem problem;
    const struct backend *backend = NULL;
    int32_t id;
    RETURN_IF_FAILED(validate(args, &problem, &id));
    RETURN_IF_FAILED(choose_backend(id, problem.device, &backend));
    return problem.m > 0 ? run(backend, &problem) : CUSTOM_KERNEL_OK;
}

/* Refuses what the backend would refuse of any groups, before the first of several launches. */
static int32_t check_all_groups(const struct backend *backend, const struct problem *groups, int64_t count) {
    int before = 0;
    if (count <= GROUPS_AT_ONCE || backend->check_grouped == NULL) {
        return CUSTOM_KERNEL_OK;
    }
    RETURN_IF_FAILED(acquire_device(backend, groups, &before));
    int32_t status = CUSTOM_KERNEL_OK;
    for (int64_t first = 0; first < count && status == CUSTOM_KERNEL_OK; first += GROUPS_AT_ONCE) {
        struct problem padded[GROUPS_AT_ONCE];
        int64_t some = 0;
        for (; some < GROUPS_AT_ONCE && first + some < count; some++) {
            padded[some] = padded_sizes(backend, &groups[first + some]);
        }
        status = backend->check_grouped(padded, some);
    }
    return release_device(backend, groups, before, status);
}

static int32_t run_all_groups(int32_t id, int32_t device, struct problem *groups, int64_t count) {
    const struct backend *backend = NULL;
    RETURN_IF_FAILED(choose_backend(id, device, &backend));
    if (backend->run_grouped == NULL) {
        return set_message(CUSTOM_KERNEL_ERROR_UNSUPPORTED, "backend %s has no grouped GEMM", backend->name);
    }
    RETURN_IF_FAILED(check_all_groups(backend, groups, count));
    for (int64_t first = 0; first < count; first += GROUPS_AT_ONCE) {
        const int64_t rest = count - first;
        RETURN_IF_FAILED(run_grouped(backend, groups + first, rest < GROUPS_AT_ONCE ? rest : GROUPS_AT_ONCE));
    }
    return CUSTOM_KERNEL_OK;
}

int32_t custom_kernel_grouped(const struct custom_kernel_grouped_args *args) {
    struct problem few[GROUPS_AT_ONCE], *groups;
    int64_t count;
    int32_t id, device, status = validate_grouped(args, few, &groups, &count, &id, &device);
    if (status == CUSTOM_KERNEL_OK) {
        status = run_all_groups(id, device, groups, count);
    }
    if (groups != few) {
        free(groups);
    }
    return status;
}

int32_t custom_kernel_extended(const struct custom_kernel_extended_args *args) {
    struct problem problem;
    struct extension extension;
    const struct backend *backend = NULL;
    int32_t id;
    RETURN_IF_FAILED(validate_extended(args, &problem, &extension, &id));
    RETURN_IF_FAILED(choose_backend(id, problem.device, &backend));
    if (problem.extension != NULL && backend->run_extended == NULL) {
        return set_message(CUSTOM_KERNEL_ERROR_UNSUPPORTED,
                           "backend %s has no extended GEMM; expected the scales, activation, weights and "
                           "output of the dual GEMM",
                           backend->name);
    }
    if (problem.m == 0) {
        return CUSTOM_KERNEL_OK;
    }
    return problem.extension == NULL ? run(backend, &problem) : run_extended(backend, &problem);
}

int32_t custom_kernel_experts(const struct custom_kernel_experts_args *args) {
    struct experts experts;
    const struct backend *backend = NULL;
    int32_t id;
    RETURN_IF_FAILED(validate_experts(args, &experts, &id));
    RETURN_IF_FAILED(choose_backend(id, experts.all.device, &backend));
    if (backend->run_experts == NULL) {
        return set_message(CUSTOM_KERNEL_ERROR_UNSUPPORTED, "backend %s has no products of experts",
                           backend->name);
    }
    return experts.all.m > 0 ? run_experts(backend, &experts) : CUSTOM_KERNEL_OK;
}

int32_t custom_kernel_quantize(const struct custom_kernel_quantize_args *args) {
    struct quantization quantization;
    const struct backend *backend = NULL;
    int32_t id;
    int before = 0;
    RETURN_IF_FAILED(validate_quantize(args, &quantization, &id));
    RETURN_IF_FAILED(choose_backend(id, quantization.problem.device, &backend));
    if (backend->run_quantize == NULL) {
        return set_message(CUSTOM_KERNEL_ERROR_UNSUPPORTED, "backend %s has no quantizer", backend->name);
    }
    if (quantization.problem.m == 0) {
        return CUSTOM_KERNEL_OK;
    }
    RETURN_IF_FAILED(acquire_device(backend, &quantization.problem, &before));
    return release_device(backend, &quantization.problem, before, backend->run_quantize(&quantization));
}

static int32_t no_routing(const struct backend *backend) {
    return set_message(CUSTOM_KERNEL_ERROR_UNSUPPORTED, "backend %s has no routing of experts", backend->name);
}

int32_t custom_kernel_route(const struct custom_kernel_route_args *args) {
    struct routing routing;
    const struct backend *backend = NULL;
    int32_t id;
    int before = 0;
    RETURN_IF_FAILED(validate_route(args, &routing, &id));
    RETURN_IF_FAILED(choose_backend(id, routing.problem.device, &backend));
    if (backend->run_route == NULL) {
        return no_routing(backend);
    }
    RETURN_IF_FAILED(acquire_device(backend, &routing.problem, &before));
    return release_device(backend, &routing.problem, before, backend->run_route(&routing));
}

int32_t custom_kernel_combine(const struct custom_kernel_combine_args *args) {
    struct combination combination;
    const struct backend *backend = NULL;
    int32_t id;
    int before = 0;
    RETURN_IF_FAILED(validate_combine(args, &combination, &id));
    RETURN_IF_FAILED(choose_backend(id, combination.problem.device, &backend));
    if (backend->run_combine == NULL) {
        return no_routing(backend);
    }
    if (combination.problem.m == 0) {
        return CUSTOM_KERNEL_OK;
    }
    RETURN_IF_FAILED(acquire_device(backend, &combination.problem, &before));
    return release_device(backend, &combination.problem, before, backend->run_combine(&combination));
}

uint32_t custom_kernel_version(void) {
    return CUSTOM_KERNEL_VERSION;
}

int32_t custom_kernel_backend_query(int32_t index, struct custom_kernel_backend_info *info) {
    static _Thread_local char detail[DETAIL_BYTES];
    if (info == NULL) {
        return set_message(CUSTOM_KERNEL_ERROR_NULL_POINTER,
                           "info is NULL; expected a struct custom_kernel_backend_info");
    }
    if (info->struct_bytes != OLDEST_INFO_BYTES && info->struct_bytes < sizeof *info) {
        return set_message(
            CUSTOM_KERNEL_ERROR_ARGUMENT,
            "info->struct_bytes is %u; expected sizeof(struct custom_kernel_backend_info) = %zu, or %zu "
            "without detail",
            info->struct_bytes, sizeof *info, OLDEST_INFO_BYTES);
    }
    if (index < 0 || index >= BACKENDS) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "index is %d; expected 0 to %d", index, BACKENDS - 1);
    }
    const struct backend *backend = backends[index].backend;
    (void)memcpy(detail, "not built", sizeof "not built");
    struct custom_kernel_backend_info found = {
        .struct_bytes = info->struct_bytes,
        .backend = backends[index].id,
        .name = backends[index].name,
        .built = backend != NULL,
        .available = backend != NULL && backend->available(CUSTOM_KERNEL_DEVICE_HOST, detail, sizeof detail),
        .detail = detail,
    };
    memcpy(info, &found, info->struct_bytes < sizeof found ? info->struct_bytes : sizeof found);
    return CUSTOM_KERNEL_OK;
}
