#include "heap.h"

#include <pthread.h>
#include <stdlib.h>

#include "ptx/list.h"

/* Blocks follow one another. Once the room is used up, freed ones are used again: by power of two, so that each
 * list has blocks that fit. */
#define BLOCK_ALIGN 16
#define CLASSES     64

struct block {
    uint64_t at, bytes; /* bytes: of its class */
    uint64_t asked;     /* 0: it is free */
    uint32_t next;      /* 1 + index of the next free block of the class; 0: none */
};

struct heap {
    pthread_mutex_t lock;
    uint64_t base, room, limit, top, used;
    struct block *blocks; /* by address */
    uint32_t count, blocks_room, in_use;
    uint32_t freed[CLASSES]; /* 1 + index; 0: none */
};

struct heap *heap_make(uint64_t base, uint64_t room, uint64_t limit) {
    struct heap *heap = calloc(1, sizeof *heap);
    if (heap != NULL) {
        (void)pthread_mutex_init(&heap->lock, NULL);
        heap->base = base;
        heap->room = room;
        heap->limit = limit;
    }
    return heap;
}

void heap_free(struct heap *heap) {
    if (heap != NULL) {
        (void)pthread_mutex_destroy(&heap->lock);
        free(heap->blocks);
        free(heap);
    }
}

void heap_tidy(struct heap *heap) {
    if (heap->in_use == 0) {
        heap->top = 0;
        heap->count = 0;
        for (int i = 0; i < CLASSES; i++) {
            heap->freed[i] = 0;
        }
    }
}

static struct block *new_block(struct heap *heap, uint64_t bytes) {
    if (heap->top + bytes > heap->room) {
        return NULL;
    }
    if (!LIST_GROW(heap->blocks, heap->count, heap->blocks_room)) {
        return NULL;
    }
    struct block *block = &heap->blocks[heap->count++];
    *block = (struct block){.at = heap->base + heap->top, .bytes = bytes};
    heap->top += bytes;
    return block;
}

uint64_t heap_take(struct heap *heap, uint64_t bytes) {
    const uint64_t asked = (bytes + BLOCK_ALIGN - 1) / BLOCK_ALIGN * BLOCK_ALIGN;
    uint64_t address = 0;
    (void)pthread_mutex_lock(&heap->lock);
    if (bytes > 0 && bytes <= heap->limit && asked <= heap->limit - heap->used) {
        const int class = 64 - __builtin_clzll(asked - 1);
        struct block *block = new_block(heap, (uint64_t)1 << class);
        if (block == NULL && heap->freed[class] != 0) {
            block = &heap->blocks[heap->freed[class] - 1];
            heap->freed[class] = block->next;
        }
        if (block != NULL) {
            block->asked = asked;
            heap->used += asked;
            heap->in_use++;
            address = block->at;
        }
    }
    (void)pthread_mutex_unlock(&heap->lock);
    return address;
}

bool heap_give(struct heap *heap, uint64_t address) {
    (void)pthread_mutex_lock(&heap->lock);
    uint32_t low = 0, high = heap->count;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (heap->blocks[middle].at < address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    struct block *block = low < heap->count && heap->blocks[low].at == address ? &heap->blocks[low] : NULL;
    const bool found = block != NULL && block->asked != 0;
    if (found) {
        const int class = 63 - __builtin_clzll(block->bytes);
        heap->used -= block->asked;
        heap->in_use--;
        block->asked = 0;
        block->next = heap->freed[class];
        heap->freed[class] = low + 1;
    }
    (void)pthread_mutex_unlock(&heap->lock);
    return found;
}
