/* The calling thread's last error message, and the names of statuses. */
#include <stdarg.h>
#include <stdio.h>

#include "backend.h"

#define MESSAGE_BYTES 512 /* longer messages are cut */

static _Thread_local char last_message[MESSAGE_BYTES];

int32_t set_message(int32_t status, const char *format, ...) {
    va_list values;
    va_start(values, format);
    (void)vsnprintf(last_message, sizeof last_message, format, values);
    va_end(values);
    return status;
}

const char *custom_kernel_message(void) {
    return last_message;
}

const char *custom_kernel_status_name(int32_t status) {
    switch ((enum custom_kernel_status)status) { /* no default: the compiler reports a missing case */
    case CUSTOM_KERNEL_OK:
        return "CUSTOM_KERNEL_OK";
    case CUSTOM_KERNEL_ERROR_NULL_POINTER:
        return "CUSTOM_KERNEL_ERROR_NULL_POINTER";
    case CUSTOM_KERNEL_ERROR_ARGUMENT:
        return "CUSTOM_KERNEL_ERROR_ARGUMENT";
    case CUSTOM_KERNEL_ERROR_UNAVAILABLE:
        return "CUSTOM_KERNEL_ERROR_UNAVAILABLE";
    case CUSTOM_KERNEL_ERROR_UNSUPPORTED:
        return "CUSTOM_KERNEL_ERROR_UNSUPPORTED";
    case CUSTOM_KERNEL_ERROR_OUT_OF_MEMORY:
        return "CUSTOM_KERNEL_ERROR_OUT_OF_MEMORY";
    case CUSTOM_KERNEL_ERROR_DEVICE:
        return "CUSTOM_KERNEL_ERROR_DEVICE";
    }
    return "unknown status";
}
