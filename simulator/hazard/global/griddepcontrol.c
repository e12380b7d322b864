/* griddepcontrol: what threads of the running launch wait for and let start (order.h). */
#include "hazard/hazard.h"
#include "order.h"

/* The other lanes of the warp have waited only once they synchronise with a lane of `mask`. */
void order_thread_waits(struct run *run, uint32_t mask) {
    struct warp *warp = run->warp;
    atomic_store_explicit(&run->launch->order.any_waited, true, memory_order_relaxed);
    run->cta->waited = true;
    if (run->cluster->checks) {
        uint32_t *has = &warp->clock->acquired[run->cluster->dependency_index];
        warp->unwaited = (*has == 0 ? warp->live : warp->unwaited) & ~mask;
        *has = 1;
    }
}

bool order_waited(const struct run *run) {
    return run->warp->clock->acquired[run->cluster->dependency_index] != 0;
}

void order_thread_lets_start(struct run *run) {
    enum start_of_next now = run->cluster->checks && order_waited(run) ? START_WAITED : START_EARLY;
    struct cta *cta = run->cta;
    cta->start_of_next = cta->start_of_next == START_EARLY ? START_EARLY : now;
    atomic_store_explicit(&run->launch->order.lets_start, true, memory_order_relaxed);
}

void order_cta_ends(struct run *run) {
    const struct cta *cta = run->cta;
    if (cta->start_of_next == START_WAITED || (cta->start_of_next == START_AT_END && cta->waited)) {
        atomic_store_explicit(&run->launch->order.start_implies, true, memory_order_relaxed);
    }
}
