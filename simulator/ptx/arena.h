/* Memory that lives as long as a module. */
#ifndef SIM_PTX_ARENA_H
#define SIM_PTX_ARENA_H

#include <stddef.h>

struct arena;

/* NULL where memory runs out; parse_take and parse_string end the parse then. */
struct arena *arena_make(void);
void *arena_take(struct arena *arena, size_t bytes); /* zeroed, 16-byte aligned */
void arena_free(struct arena *arena);

#endif
