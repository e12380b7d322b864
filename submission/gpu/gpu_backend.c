#include "gpu_backend.h"

#include <stdio.h>
#include <string.h>

#include "../core/environment.h"

#define NAMES_BYTES 256 /* room for a backend's tile names in a message; longer lists are cut */

/* The chips of a compute capability (NVIDIA, "CUDA GPU Compute Capability"). */
static const char *chips_of(int capability) {
    switch (capability) {
    case 90:
        return "H100, H200";
    case 100:
        return "B200";
    case 103:
        return "B300";
    case 120:
        return "RTX 50, RTX PRO 6000";
    case 121:
        return "GB10";
    default:
        return "unknown chips";
    }
}

/* Appends "; it needs 10.0 (B200) or 10.3 (B300)" to `detail`. */
static void add_needed(const int *capabilities, int count, char *detail, size_t detail_bytes) {
    for (int i = 0; i < count; i++) {
        size_t used = strlen(detail);
        (void)snprintf(detail + used, detail_bytes - used, "%s %d.%d (%s)", i == 0 ? "; it needs" : " or",
                       capabilities[i] / 10, capabilities[i] % 10, chips_of(capabilities[i]));
    }
}

static bool has_major(const int *capabilities, int count, int major) {
    for (int i = 0; i < count; i++) {
        if (capabilities[i] / 10 == major) {
            return true;
        }
    }
    return false;
}

static int device_available(int32_t device, const int *capabilities, int count, char *detail,
                            size_t detail_bytes) {
    int major = 0, minor = 0, sms = 0;
    cudaError_t error = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
    if (detail == NULL && !has_major(capabilities, count, major)) {
        return 0; /* every call with an automatic choice asks one backend after another */
    }
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
    }
    if (error == cudaSuccess) {
        error = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
    }
    int right = 0;
    for (int i = 0; i < count && error == cudaSuccess; i++) {
        right = right || capabilities[i] == 10 * major + minor;
    }
    if (detail == NULL) {
        return right;
    }
    if (error != cudaSuccess) {
        (void)cudaGetLastError();
        (void)snprintf(detail, detail_bytes, "CUDA device %d: %s", device, cudaGetErrorString(error));
        return right;
    }
    (void)snprintf(detail, detail_bytes, "CUDA device %d, compute capability %d.%d, %d SMs", device, major,
                   minor, sms);
    if (!right) {
        add_needed(capabilities, count, detail, detail_bytes);
    }
    return right;
}

int gpu_available(int32_t device, const int *capabilities, int count, char *detail, size_t detail_bytes) {
    if (device >= 0) {
        return device_available(device, capabilities, count, detail, detail_bytes);
    }
    int devices = 0;
    cudaError_t error = cudaGetDeviceCount(&devices);
    if (error != cudaSuccess || devices == 0) {
        (void)cudaGetLastError();
        if (detail != NULL) {
            (void)snprintf(detail, detail_bytes, "no CUDA device (%s)", cudaGetErrorString(error));
        }
        return 0;
    }
    for (int i = 0; i < devices; i++) {
        if (device_available(i, capabilities, count, detail, detail_bytes)) {
            return 1;
        }
    }
    return 0;
}

int32_t gpu_acquire_device(const struct problem *problem, int *before) {
    if (problem->device >= MAX_DEVICES) {
        return set_message(CUSTOM_KERNEL_ERROR_UNSUPPORTED, "device is %d; expected at most %d",
                           problem->device, MAX_DEVICES - 1);
    }
    CHECK_CUDA(cudaGetDevice(before));
    if (*before != problem->device) {
        CHECK_CUDA(cudaSetDevice(problem->device));
    }
    return CUSTOM_KERNEL_OK;
}

int32_t gpu_release_device(const struct problem *problem, int before, int32_t status) {
    cudaError_t error = before != problem->device ? cudaSetDevice(before) : cudaSuccess;
    if (status == CUSTOM_KERNEL_OK && error != cudaSuccess) {
        return gpu_error("cudaSetDevice(before)", error);
    }
    return status;
}

int32_t gpu_count_sms(int32_t device, int *sms) {
    CHECK_CUDA(cudaDeviceGetAttribute(sms, cudaDevAttrMultiProcessorCount, device));
    return CUSTOM_KERNEL_OK;
}

int32_t gpu_check_limits(const char *backend, const char *tile, const struct limit *limits, int count) {
    for (int i = 0; i < count; i++) {
        if (limits[i].found > limits[i].most) {
            return set_message(CUSTOM_KERNEL_ERROR_UNSUPPORTED,
                               "%s is %lld; expected at most %lld on the %s backend%s%s", limits[i].what,
                               (long long)limits[i].found, (long long)limits[i].most, backend,
                               tile != NULL ? " with tile " : "", tile != NULL ? tile : "");
        }
    }
    return CUSTOM_KERNEL_OK;
}

int32_t gpu_wanted_tile(const char *variable, const char *(*name_of)(int index), int *index) {
    const char *wanted = environment(variable);
    *index = -1;
    if (wanted == NULL || wanted[0] == '\0') {
        return CUSTOM_KERNEL_OK;
    }
    char names[NAMES_BYTES] = "";
    for (int i = 0; name_of(i) != NULL; i++) {
        if (strcmp(wanted, name_of(i)) == 0) {
            *index = i;
            return CUSTOM_KERNEL_OK;
        }
        size_t used = strlen(names);
        (void)snprintf(names + used, sizeof names - used, "%s%s", i == 0 ? "" : ", ", name_of(i));
    }
    return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s is '%.64s'; expected one of %s", variable, wanted,
                       names);
}

int32_t gpu_check_a_type(const char *backend, int32_t a_type) {
    if (a_type == CUSTOM_KERNEL_A_NVFP4) {
        return CUSTOM_KERNEL_OK;
    }
    return set_message(
        CUSTOM_KERNEL_ERROR_UNSUPPORTED,
        "a has 16 bits an element; expected e2m1 codes with scale factors (a_type 0) on backend %s", backend);
}
