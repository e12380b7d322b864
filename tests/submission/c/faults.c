/* Preloaded into a process by tests/submission/test_cpu_kernels.py: counts the threads it starts, and makes
 * starting them or getting memory fail after as many successes as the environment says, read anew in each call.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

int threads_started; /* since the test set it to zero */
int memory_blocks;   /* likewise */

/* Whether `successes` is as many as the variable allows; without the variable, never. */
static int used_up(const char *variable, int successes) {
    const char *value = getenv(variable);
    return value != NULL && successes >= atoi(value);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *argument) {
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    if (used_up("FAULT_THREADS", threads_started)) {
        return EAGAIN;
    }
    threads_started++;
    return real(thread, attributes, run, argument);
}

int posix_memalign(void **block, size_t alignment, size_t bytes) {
    int (*real)(void **, size_t, size_t);
    *(void **)&real = dlsym(RTLD_NEXT, "posix_memalign");
    if (used_up("FAULT_MEMORY", memory_blocks)) {
        return ENOMEM;
    }
    memory_blocks++;
    return real(block, alignment, bytes);
}
