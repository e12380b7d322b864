/* The heap on the device: malloc and free of kernels (CUDA C++ Programming Guide, Dynamic Global Memory
 * Allocation). */
#ifndef SIM_MACHINE_HEAP_H
#define SIM_MACHINE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#define HEAP_BYTES ((uint64_t)8 << 20) /* cudaLimitMallocHeapSize: the default */
#define HEAP_ROOM  8                   /* address space for each byte, so that freed memory is seldom reused */

struct heap;

/* A heap on `room` bytes at `base`, of which `limit` may be allocated at a time; NULL: no memory. */
struct heap *heap_make(uint64_t base, uint64_t room, uint64_t limit);
void heap_free(struct heap *heap);
/* Call before a launch: forgets all freed blocks if no block is in use. */
void heap_tidy(struct heap *heap);
/* The address of a new block, aligned to 16 bytes; 0: no room. */
uint64_t heap_take(struct heap *heap, uint64_t bytes);
/* False if no block in use starts there. */
bool heap_give(struct heap *heap, uint64_t address);

#endif
