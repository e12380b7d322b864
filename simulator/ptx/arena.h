/* Bump allocator: everything is freed together with the module. */
#ifndef SIM_PTX_ARENA_H
#define SIM_PTX_ARENA_H

#include <stddef.h>

struct arena;

/* Both return NULL when memory runs out; parse_take and parse_string turn that into a parse error. */
struct arena *arena_make(void);
void *arena_take(struct arena *arena, size_t bytes); /* zeroed, 16-byte aligned */
void arena_free(struct arena *arena);

#endif
