/* The routing of experts on the CPU backend. */
#ifndef CPU_ROUTING_H
#define CPU_ROUTING_H

#include "../core/backend.h"

/* struct backend's `run_route` and `run_combine`. */
int32_t cpu_run_route(const struct routing *routing);
int32_t cpu_run_combine(const struct combination *combination);

#endif
