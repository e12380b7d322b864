/* What comes before what among launches and copies: queues (CUDA streams), programmatic dependent launch (PDL),
 * events, and the host's waits.
 *
 * Every launch and copy has a number, from 1 in the order of submission, and is complete as a whole or not at
 * all: it is one entry of a vector clock, so that a clock is a set of numbers.  Of a launch L, whose
 * predecessor P in its queue is a kernel, with PDL:
 *
 *   at its start      what P's CTAs knew when they let L start: each by griddepcontrol.launch_dependents, or by
 *                     its end where none of its threads says that (PTX ISA, griddepcontrol)
 *   after its wait    that, P itself, and what P's end implies
 *   its end implies   what it knew at its start; and what its waits told, where any of its threads waited
 *
 * Any other launch knows at its start all that its queue holds.  Nothing else than that a launch is complete
 * makes its writes visible: that it let its successor start says nothing of them. */
#ifndef SIM_HAZARD_ORDER_H
#define SIM_HAZARD_ORDER_H

#include "machine/machine.h"

bool known_has(const struct known *known, uint32_t number);
/* False: no memory. */
bool known_add(struct known *known, uint32_t number);
bool known_join(struct known *to, const struct known *from);
bool known_copy(struct known *to, const struct known *from);
void known_free(struct known *known);

/* A launch or copy, as long as findings may name it: to the end of the sim. */
struct submitted {
    const char *name; /* of the kernel, or what the copy was */
    const struct module *module;
    uint32_t queue;
    bool lets_start; /* a thread of it executed griddepcontrol.launch_dependents */
    uint32_t
        implied; /* whoever knows it to be complete knows all launches before this one too; 0 while it runs */
    struct image_chunk *images; /* hazard/global/delayed.c */
};

struct timeline;

struct timeline *order_make(void); /* NULL: no memory */
void order_free(struct timeline *order);
/* Takes up a launch in the selected queue, or a copy (module NULL).  False: no memory. */
bool order_begin(struct timeline *order, struct launch_order *launch, const char *name,
                 const struct module *module, bool dependent, bool delays);
/* It is complete, as the simulator executes it.  False: no memory. */
bool order_end(struct timeline *order, struct launch_order *launch);
struct submitted *order_submitted(struct timeline *order, uint32_t number);

/* Queues: 0 is the legacy default queue, which waits for the blocking ones and they for it. */
uint32_t order_queue(struct timeline *order, bool blocking); /* 0: no memory */
void order_queue_ends(struct timeline *order, uint32_t queue);
void order_select(struct timeline *order, uint32_t queue);
uint32_t order_selected(const struct timeline *order);
/* The host waits for a queue, or for all.  False: no memory. */
bool order_synchronize(struct timeline *order, uint32_t queue);
bool order_synchronize_all(struct timeline *order);
/* An event: what a queue holds now.  NULL: no memory. */
struct known *order_record(struct timeline *order, uint32_t queue);
bool order_queue_waits(struct timeline *order, uint32_t queue, const struct known *event);
bool order_host_waits(struct timeline *order, const struct known *event);
void order_event_free(struct known *event);

/* ---- what threads of the running launch do ---- */

void order_thread_waits(struct run *run, uint32_t mask);
void order_thread_lets_start(struct run *run);
/* Whether the running warp has waited for the previous kernel, itself or through what it has acquired. */
bool order_waited(const struct run *run);
/* The last thread of the running CTA ends. */
void order_cta_ends(struct run *run);
#endif
