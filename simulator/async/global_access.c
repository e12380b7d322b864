/* Records accesses to global memory for the checks: races with other launches and threads, changes of tensor
 * maps. */
#include "hazard/global/global_record.h"
#include "map_change.h"

void touch_global(struct run *run, uint64_t address, uint64_t bytes, int lane, unsigned flags) {
    if (!run->cluster->checks) {
        return;
    }
    if ((flags & ACCESS_WRITE) && run->cluster->map_changes != NULL) {
        map_stored(run, address);
    }
    struct epoch epoch = warp_epoch(run, 1u << (lane < 0 ? 0 : lane));
    if (run->insn->cls == CL_ASYNC_COPY && strstr(run->insn->name, "async.bulk") != NULL) {
        flags |= ACCESS_ASYNC;
        if (flags & ACCESS_WRITE) { /* other threads can learn of the write only after its group's wait */
            epoch = group_epoch(run, GROUP_BULK, false);
        }
        flags |= strncmp(run->insn->name, "cp.reduce", strlen("cp.reduce")) == 0 ? ACCESS_ATOMIC : 0u;
    }
    lines_touched(run, address, bytes, lane, flags, &epoch);
}

void touch_global_lanes(struct run *run, const uint64_t addresses[LANES], uint32_t mask, uint32_t bytes,
                        unsigned flags) {
    if (!run->cluster->checks) {
        return;
    }
    FOR_LANES(rest, (flags & ACCESS_WRITE) && run->cluster->map_changes != NULL ? mask : 0) {
        map_stored(run, addresses[LANE(rest)]);
    }
    lines_touched_by_lanes(run, addresses, mask, bytes, flags);
}
