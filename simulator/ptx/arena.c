#include "arena.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_BYTES ((size_t)1 << 16)
#define ALIGNMENT   16

struct block {
    struct block *next;
    size_t used, size;
};

struct arena {
    struct block *first;
};

/* The memory handed out starts after the block's header, aligned. */
static char *bytes_of(struct block *block) {
    return (char *)block + (sizeof *block + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

struct arena *arena_make(void) {
    return calloc(1, sizeof(struct arena));
}

void *arena_take(struct arena *arena, size_t bytes) {
    bytes = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    struct block *block = arena->first;
    if (block == NULL || block->size - block->used < bytes) {
        size_t size = bytes > BLOCK_BYTES ? bytes : BLOCK_BYTES;
        block = calloc(1, size + sizeof *block + ALIGNMENT);
        if (block == NULL) {
            return NULL;
        }
        block->size = size;
        block->next = arena->first;
        arena->first = block;
    }
    void *taken = bytes_of(block) + block->used;
    block->used += bytes;
    return taken;
}

void arena_free(struct arena *arena) {
    if (arena == NULL) {
        return;
    }
    for (struct block *block = arena->first, *next; block != NULL; block = next) {
        next = block->next;
        free(block);
    }
    free(arena);
}
