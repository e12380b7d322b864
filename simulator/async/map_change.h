/* Changes and uses of tensor maps in global memory while kernels run. */
#ifndef SIM_ASYNC_MAP_CHANGE_H
#define SIM_ASYNC_MAP_CHANGE_H

#include "async.h"

void map_changes_reset(struct cluster *cluster);
void map_changes_free(struct map_changes *all);
/* The running warp changes the map at an address. */
void map_changed(struct run *run, uint64_t address);
/* An ordinary store to an address; it changes a map if it hits one that was changed or used before. */
void map_stored(struct run *run, uint64_t address);
/* fence.proxy.tensormap::generic.acquire of the map. */
void map_fenced(struct run *run, uint64_t address);
/* A copy issued with the map, which is done at this epoch. */
void map_used(struct run *run, uint64_t address, const struct epoch *epoch);

#endif
