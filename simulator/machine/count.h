/* Counters of memory accesses. */
#ifndef SIM_MACHINE_COUNT_H
#define SIM_MACHINE_COUNT_H

#include "machine.h"

void count_global(struct run *run, const uint64_t *addresses, uint32_t mask, uint32_t bytes, bool write);
void count_shared(struct run *run, const uint32_t *offsets, uint32_t mask, uint32_t bytes, bool write);

#endif
