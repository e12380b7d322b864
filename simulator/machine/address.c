/* Resolves an address in any state space, with bounds checks. */
#include "machine.h"

const struct allocation *allocation_before(const struct sim *sim, uint64_t address) {
    size_t low = 0, high = sim->nallocations;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (sim->allocations[middle].base <= address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low == 0 ? NULL : &sim->allocations[low - 1];
}

static bool inside(const struct allocation *allocation, uint64_t address, uint64_t bytes) {
    /* For an address before the allocation, the difference wraps to a large number. */
    return allocation != NULL && bytes <= allocation->bytes &&
           address - allocation->base <= allocation->bytes - bytes;
}

const struct allocation *allocation_of(const struct sim *sim, struct worker *worker, uint64_t address,
                                       uint64_t bytes) {
    for (int i = 0; i < 2; i++) {
        if (inside(worker->last[i], address, bytes)) {
            return worker->last[i];
        }
    }
    const struct allocation *found = allocation_before(sim, address);
    if (!inside(found, address, bytes)) {
        return NULL;
    }
    worker->last[1] = worker->last[0];
    worker->last[0] = found;
    return found;
}

bool find_range(const struct sim *sim, struct worker *worker, uint64_t address, uint64_t bytes) {
    return allocation_of(sim, worker, address, bytes) != NULL;
}

uint8_t *global_memory(struct run *run, uint64_t address, uint64_t bytes, int lane, bool write) {
    if (find_range(run->launch->sim, run->worker, address, bytes)) {
        return (uint8_t *)(uintptr_t)address;
    }
    const struct sim *sim = run->launch->sim;
    const struct allocation *near = allocation_before(sim, address);
    if (address == 0) {
        (void)sim_report(run, SIM_ERROR, "out-of-bounds", lane, "%s of %llu bytes through a null pointer",
                         write ? "write" : "read", (unsigned long long)bytes);
    } else if (near != NULL && address - near->base < near->bytes + ((uint64_t)1 << 20)) {
        (void)sim_report(run, SIM_ERROR, "out-of-bounds", lane,
                         "%s of %llu bytes at offset %llu of '%s', which has %llu bytes%s",
                         write ? "write" : "read", (unsigned long long)bytes,
                         (unsigned long long)(address - near->base), near->name,
                         (unsigned long long)near->bytes, near->freed_bytes > 0 ? ": it has been freed" : "");
    } else {
        (void)sim_report(run, SIM_ERROR, "out-of-bounds", lane,
                         "%s of %llu bytes at global address %#llx, which belongs to no allocation",
                         write ? "write" : "read", (unsigned long long)bytes, (unsigned long long)address);
    }
    return NULL;
}

struct cta *shared_cta(struct run *run, uint64_t address, uint32_t bytes, uint32_t align, int lane,
                       bool own_only, uint32_t *offset) {
    uint32_t rank = (uint32_t)(address >> RANK_SHIFT) & 0xff, at = (uint32_t)address & RANK_MASK;
    if (address >> 32 != 0 || rank >= run->cluster->nctas) {
        (void)sim_report(run, SIM_ERROR, "bad-address", lane, "%#llx is not a shared address of this cluster",
                         (unsigned long long)address);
        return NULL;
    }
    struct cta *cta = &run->cluster->ctas[rank];
    if (own_only && cta != run->cta) {
        (void)sim_report(run, SIM_ERROR, "bad-address", lane,
                         "a shared::cta access to shared memory of CTA rank %u, which needs shared::cluster",
                         rank);
        return NULL;
    }
    if (cta != run->cta && cta->live_threads == 0) {
        /* The memory exists here until the cluster ends, so the launch goes on: chips often forgive this. */
        (void)sim_report_pair(run, SIM_ERROR, "cta-exited", lane, NULL,
                              "reaches into CTA rank %u of the cluster, which has ended", rank);
    }
    if (at < run->launch->shared_floor || at > cta->shared_bytes || bytes > cta->shared_bytes - at) {
        (void)sim_report(run, SIM_ERROR, "out-of-bounds", lane,
                         "%u bytes at shared address %#x; the CTA's shared memory is %#x to %#x", bytes, at,
                         run->launch->shared_floor, cta->shared_bytes);
        return NULL;
    }
    if (at % align != 0) {
        (void)sim_report(run, SIM_ERROR, "misaligned", lane, "shared address %#x is not aligned to %u bytes",
                         at, align);
        return NULL;
    }
    *offset = at;
    return cta;
}

static uint8_t *private_memory(struct run *run, uint64_t at, uint64_t size, uint32_t bytes, int lane,
                               const char *what, uint8_t *memory) {
    if (at > size || bytes > size - at) {
        (void)sim_report(run, SIM_ERROR, "out-of-bounds", lane, "%u bytes at %s offset %llu of %llu", bytes,
                         what, (unsigned long long)at, (unsigned long long)size);
        return NULL;
    }
    return memory + at;
}

uint8_t *generic_memory(struct run *run, uint64_t address, uint32_t bytes, int lane, bool write,
                        struct cta **cta, uint32_t *offset) {
    uint64_t at = address & ~WINDOW_MASK;
    *cta = NULL;
    switch (address & WINDOW_MASK) {
    case SHARED_WINDOW:
        *cta = shared_cta(run, at, bytes, 1, lane, false, offset);
        return *cta == NULL ? NULL : (*cta)->shared + *offset;
    case LOCAL_WINDOW:
        return private_memory(run, at, run->launch->local_bytes, bytes, lane, "local",
                              run->warp->local + (size_t)lane * run->launch->local_bytes);
    case PARAM_WINDOW:
        if (write) {
            (void)sim_report(run, SIM_ERROR, "bad-address", lane, "a write to a kernel parameter");
            return NULL;
        }
        return private_memory(run, at, run->launch->param_bytes, bytes, lane, "parameter", run->launch->params);
    default:
        return global_memory(run, address, bytes, lane, write);
    }
}
