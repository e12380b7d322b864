/* What kernels do to global memory, as far as others see it: launches that may overlap, and tensor maps. */
#include "map_change.h"

#define WRITTEN_SHIFT 7

/* What a launch writes is marked 2, and becomes 1 when the next one starts (interp/launch.c). */
void touch_global(struct run *run, uint64_t address, uint64_t bytes, int lane, bool write) {
    if (!run->launch->checks) {
        return;
    }
    if (write && run->cluster->map_changes != NULL) {
        map_stored(run, address);
    }
    const struct allocation *allocation = allocation_of(run->launch->sim, run->worker, address, bytes);
    if (allocation == NULL || allocation->written == NULL || bytes == 0) {
        return;
    }
    uint64_t first = (address - allocation->base) >> WRITTEN_SHIFT;
    uint64_t last = (address - allocation->base + bytes - 1) >> WRITTEN_SHIFT;
    bool waited = !run->launch->dependent || run->warp->clock->acquired[run->cluster->dependency_index] != 0;
    for (uint64_t i = first; i <= last; i++) {
        uint8_t *mark = &allocation->written[i];
        if (!waited && (__atomic_load_n(mark, __ATOMIC_RELAXED) & 1)) {
            sim_note(
                run->launch, SIM_ERROR, "missing-griddepcontrol-wait", run->cta, (int)run->warp->index, lane,
                run->insn, NULL,
                write ? "overwrites what an earlier launch writes, which may still run: griddepcontrol.wait "
                        "has to come first"
                      : "reads what an earlier launch writes, which may still run: griddepcontrol.wait has to "
                        "come first");
            waited = true; /* said once */
        }
        if (write) {
            __atomic_store_n(mark, (uint8_t)(*mark | 2), __ATOMIC_RELAXED);
        }
    }
}

bool written_by_launch(struct run *run, uint64_t address) {
    const struct allocation *allocation = allocation_of(run->launch->sim, run->worker, address, 1);
    return allocation != NULL && allocation->written != NULL &&
           (__atomic_load_n(&allocation->written[(address - allocation->base) >> WRITTEN_SHIFT],
                            __ATOMIC_RELAXED) &
            2);
}
