/* Variables of the environment that the shim reads. */
#include "shim.h"

#include <stdio.h>
#include <stdlib.h>

const char *runtime_setting(const char *variable) {
    const char *value = getenv(variable);
    return value == NULL || value[0] == '\0' ? NULL : value;
}

void refuse_setting(const char *variable, const char *value, const char *expected) {
    (void)fprintf(stderr, "simulator: %s is '%s'; expected %s\n", variable, value, expected);
    exit(EXIT_FAILURE);
}
