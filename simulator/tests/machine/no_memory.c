/* An allocator that fails on demand, linked into a program of the simulator's objects with --wrap.
 *
 *     NO_MEMORY_AT=N     request number N fails, counted from 0
 *     NO_MEMORY_ALL=1    all requests after it fail too
 *
 * At the end of the program, the last line on stderr gives the number of requests and of blocks not freed. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t count, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void __real_free(void *block);

void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);
void *__wrap_realloc(void *old, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
char *__wrap_strdup(const char *text);
void __wrap_free(void *block);

static atomic_long requests, live;

static bool refused(void) {
    const char *at = getenv("NO_MEMORY_AT"), *all = getenv("NO_MEMORY_ALL");
    long number = atomic_fetch_add(&requests, 1), wanted = at == NULL ? -1 : strtol(at, NULL, 10);
    return wanted >= 0 && (all != NULL ? number >= wanted : number == wanted);
}

static void *counted(void *block) {
    atomic_fetch_add(&live, block != NULL);
    return block;
}

void *__wrap_malloc(size_t bytes) {
    return refused() ? NULL : counted(__real_malloc(bytes));
}

void *__wrap_calloc(size_t count, size_t bytes) {
    return refused() ? NULL : counted(__real_calloc(count, bytes));
}

void *__wrap_realloc(void *old, size_t bytes) {
    void *block = refused() ? NULL : __real_realloc(old, bytes);
    return old == NULL ? counted(block) : block;
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes) {
    return refused() ? NULL : counted(__real_aligned_alloc(alignment, bytes));
}

char *__wrap_strdup(const char *text) {
    char *copy = __wrap_malloc(strlen(text) + 1);
    return copy == NULL ? NULL : memcpy(copy, text, strlen(text) + 1);
}

void __wrap_free(void *block) {
    atomic_fetch_sub(&live, block != NULL);
    __real_free(block);
}

__attribute__((destructor)) static void say(void) {
    (void)fprintf(stderr, "no_memory: %ld requests, %ld live\n", atomic_load(&requests), atomic_load(&live));
}
