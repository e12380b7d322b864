/* Memory that lives as long as a module. */
#ifndef SIM_PTX_ARENA_H
#define SIM_PTX_ARENA_H

#include <stddef.h>

struct arena;

/* Every function returns NULL where memory runs out. */
struct arena *arena_make(void);
void *arena_take(struct arena *arena, size_t bytes); /* zeroed, 16-byte aligned */
char *arena_string(struct arena *arena, const char *text, size_t length);
void arena_free(struct arena *arena);

#endif
