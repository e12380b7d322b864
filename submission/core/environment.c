#include "environment.h"

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

enum { MOST_VARIABLES = 512, MOST_NAMES = 16 };

/* The strings of the environment at the last look, and the values found since.  glibc's setenv() makes a new
 * string for each new value, so the strings' addresses tell of every change but one that overwrites a string
 * that putenv() was given. */
static _Thread_local struct {
    const char *variables[MOST_VARIABLES];
    size_t count;
    struct {
        const char *name, *value;
    } found[MOST_NAMES];
    int names;
} seen;

/* True if the environment is as seen; else looks at it anew, and is false if it is too large. */
static int look(void) {
    size_t i = 0;
    while (i < seen.count && environ[i] == seen.variables[i]) {
        i++;
    }
    if (i == seen.count && environ[i] == NULL) {
        return 1;
    }
    seen.names = 0;
    for (; environ[i] != NULL && i < MOST_VARIABLES; i++) {
        seen.variables[i] = environ[i];
    }
    seen.count = environ[i] == NULL ? i : 0;
    return environ[i] == NULL;
}

const char *environment(const char *name) {
    if (environ == NULL || !look()) {
        return getenv(name);
    }
    for (int i = 0; i < seen.names; i++) {
        if (seen.found[i].name == name) {
            return seen.found[i].value;
        }
    }
    const char *value = getenv(name);
    if (seen.names < MOST_NAMES) {
        seen.found[seen.names].name = name;
        seen.found[seen.names++].value = value;
    }
    return value;
}
