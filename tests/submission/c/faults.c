/* Preloaded into a process by tests of the CPU backend.  Counts threads started and aligned blocks allocated
 * and freed; makes thread creation fail after FAULT_THREADS successes and allocation after FAULT_MEMORY.  Each
 * call reads the environment variables anew. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

int threads_started; /* since the test set it to zero */
int memory_blocks;   /* the same */
int blocks_kept;     /* allocated and not yet freed */
int64_t most_bytes;  /* largest block since the test set it to zero */
int least_alignment; /* least alignment of a block since the test set it to a large number */

enum { MOST_BLOCKS = 1024 };
static void *blocks[MOST_BLOCKS];

/* True if `successes` has reached the variable's value; false without the variable. */
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
    most_bytes = (int64_t)bytes > most_bytes ? (int64_t)bytes : most_bytes;
    least_alignment = (int)alignment < least_alignment ? (int)alignment : least_alignment;
    int status = real(block, alignment, bytes);
    for (int i = 0; status == 0 && i < MOST_BLOCKS; i++) {
        void *none = NULL;
        if (__atomic_compare_exchange_n(&blocks[i], &none, *block, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            __atomic_add_fetch(&blocks_kept, 1, __ATOMIC_SEQ_CST);
            break;
        }
    }
    return status;
}

void free(void *block) {
    static void (*real)(void *);
    if (real == NULL) {
        *(void **)&real = dlsym(RTLD_NEXT, "free");
    }
    for (int i = 0; block != NULL && __atomic_load_n(&blocks_kept, __ATOMIC_SEQ_CST) > 0 && i < MOST_BLOCKS;
         i++) {
        void *found = block;
        if (__atomic_compare_exchange_n(&blocks[i], &found, NULL, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
            __atomic_sub_fetch(&blocks_kept, 1, __ATOMIC_SEQ_CST);
            break;
        }
    }
    real(block);
}
