/* Names the kind of a conflict between two launches and explains it. */
#include "launch_report.h"

#include <stdio.h>

void report_launches(const struct launch_conflict *c) {
    struct launch *launch = c->launch;
    const bool lane = c->lane_alone;
    const struct launch_order *order = &launch->order;
    const struct submitted *other = order_submitted(launch->sim->order, c->other_launch);
    bool same_queue = other->queue == order_selected(launch->sim->order);
    bool early = c->early && !lane && same_queue;
    if (!c->other_write && same_queue && !other->lets_start) {
        return; /* its successors start when its CTAs have ended, so their reads are over */
    }
    const char *does = c->write ? c->other_write ? "overwrites" : "writes" : "reads";
    const char *did = c->other_write ? "writes" : "reads";
    char message[300], in_previous[40] = "";
    if (!known_has(&order->waited, c->other_launch)) {
        (void)snprintf(in_previous, sizeof in_previous, ", in launch %u too", order->previous);
    }
    if (lane) {
        (void)snprintf(message, sizeof message,
                       "%s what launch %u %s, and only another lane of the warp has waited for that: "
                       "griddepcontrol.wait covers only the thread that executes it",
                       does, c->other_launch, did);
    } else if (early) {
        (void)snprintf(message, sizeof message,
                       "%s what launch %u %s, which may still run%s: griddepcontrol.wait has to come first%s",
                       does, c->other_launch, did,
                       other->lets_start ? " after its griddepcontrol.launch_dependents"
                                         : ", or whose writes may not be visible yet",
                       in_previous);
    } else if (same_queue) {
        (void)snprintf(
            message, sizeof message,
            "%s what launch %u %s, which may still run: griddepcontrol.wait waits for launch %u alone, "
            "which ends without having waited itself",
            does, c->other_launch, did, order->previous);
    } else {
        (void)snprintf(message, sizeof message,
                       "%s what launch %u %s, in another queue: no event, synchronising call or rule of the "
                       "default queue orders the two",
                       does, c->other_launch, did);
    }
    struct other_access against = {.module = other->module, .kernel = other->name, .launch = c->other_launch};
    against.insn = other->module == NULL ? NULL : &other->module->code[c->other_pc];
    sim_note_launches(launch, lane ? SIM_REVIEW : SIM_ERROR,
                      early || lane ? "missing-griddepcontrol-wait"
                      : same_queue  ? "unwaited-predecessor"
                                    : "queue-race",
                      c->run == NULL ? NULL : c->run->cta, c->run == NULL ? -1 : (int)c->run->warp->index,
                      c->lane, c->allocation, c->offset, c->run == NULL ? NULL : c->run->insn, &against,
                      message);
}
