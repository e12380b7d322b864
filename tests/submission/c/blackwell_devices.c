/* `blackwell_devices MAJOR MINOR` prints whether the Blackwell backend accepts a device of that compute
 * capability, and the detail.  Functions here replace the CUDA runtime. */
#include <stdio.h>
#include <stdlib.h>

#include "../../../submission/gpu/gpu_host.h"

static int capability_major, capability_minor;

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    const int sms = 148;
    (void)device;
    *value = attribute == cudaDevAttrComputeCapabilityMajor   ? capability_major
             : attribute == cudaDevAttrComputeCapabilityMinor ? capability_minor
                                                              : sms;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count) {
    *count = 1;
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void) {
    return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t error) {
    (void)error;
    return "no error";
}

int main(int count, char **words) {
    char detail[200] = "";
    if (count != 3) {
        return 1;
    }
    capability_major = atoi(words[1]);
    capability_minor = atoi(words[2]);
    int right = blackwell_backend.available(0, detail, sizeof detail);
    int any = blackwell_backend.available(CUSTOM_KERNEL_DEVICE_HOST, NULL, 0); /* some device of the machine */
    printf("%d %d %s\n", right, any, detail);
    return 0;
}
