/* The calling thread's last error message. */
#include <stdarg.h>
#include <stdio.h>

#include "backend.h"

#define MESSAGE_BYTES 512 /* longer ones are cut */

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
