/* Variables of the environment, which a program may change between two calls.  Internal. */
#ifndef CORE_ENVIRONMENT_H
#define CORE_ENVIRONMENT_H

/* getenv(name), in nanoseconds where the environment is as at this thread's last look: getenv() compares every
 * variable's text, which takes 0.3 us on an H200 machine, and a call needs several.
 * `name` is a literal. */
const char *environment(const char *name);

#endif
