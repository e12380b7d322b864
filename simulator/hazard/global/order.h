/* The order of launches and copies: queues (CUDA streams), programmatic dependent launch (PDL), events, and the
 * waits of the host.
 *
 * Every launch and copy has a number, from 1 in the order of submission.  It is complete as a whole or not at
 * all, so a vector clock over launches is a set of numbers.  A launch L with PDL whose predecessor P in its
 * queue is a kernel knows:
 *
 *   at its start      what the CTAs of P knew when they let L start: each by griddepcontrol.launch_dependents,
 *                     or by its end if none of its threads executes that (PTX ISA, griddepcontrol)
 *   after its wait    in addition P itself, and what the end of P implies
 *   its end implies   what L knew at its start, and after its wait if any of its threads waited
 *
 * Any other launch knows at its start all entries of its queue.  Only the completion of a launch makes its
 * writes visible; letting the successor start does not. */
#ifndef SIM_HAZARD_ORDER_H
#define SIM_HAZARD_ORDER_H

#include "machine/machine.h"

bool known_has(const struct known *known, uint32_t number);
/* False: no memory. */
bool known_add(struct known *known, uint32_t number);
bool known_join(struct known *to, const struct known *from);
bool known_copy(struct known *to, const struct known *from);
void known_free(struct known *known);

/* A launch or copy; kept until the simulator is destroyed, since findings may name it. */
struct submitted {
    const char *name; /* the kernel's name, or a description of the copy */
    const struct module *module;
    uint32_t queue;
    bool lets_start;  /* a thread of it executed griddepcontrol.launch_dependents */
    uint32_t implied; /* its completion implies that of all launches before this number; 0 while it runs */
    struct image_chunk *images; /* hazard/global/delayed.c */
};

struct launch_sequence;

struct launch_sequence *order_make(void); /* NULL: no memory */
void order_free(struct launch_sequence *order);
/* Adds a launch, or a copy (module NULL), to the selected queue.  False: no memory. */
bool order_begin(struct launch_sequence *order, struct launch_order *launch, const char *name,
                 const struct module *module, bool dependent, bool delays);
/* Call when the simulator has executed the launch or copy.  False: no memory. */
bool order_end(struct launch_sequence *order, struct launch_order *launch);
struct submitted *order_submitted(struct launch_sequence *order, uint32_t number);

/* Queue 0 is the legacy default stream: it and the blocking queues wait for each other. */
uint32_t order_queue(struct launch_sequence *order, bool blocking); /* 0: no memory */
void order_queue_ends(struct launch_sequence *order, uint32_t queue);
void order_select(struct launch_sequence *order, uint32_t queue);
uint32_t order_selected(const struct launch_sequence *order);
/* The host waits for one queue, or for all.  False: no memory. */
bool order_synchronize(struct launch_sequence *order, uint32_t queue);
bool order_synchronize_all(struct launch_sequence *order);
/* An event: the entries that a queue holds now.  NULL: no memory. */
struct known *order_record(struct launch_sequence *order, uint32_t queue);
bool order_queue_waits(struct launch_sequence *order, uint32_t queue, const struct known *event);
bool order_host_waits(struct launch_sequence *order, const struct known *event);
void order_event_free(struct known *event);

/* ---- threads of the running launch (griddepcontrol.c) ---- */

void order_thread_waits(struct run *run, uint32_t mask); /* griddepcontrol.wait */
void order_thread_lets_start(struct run *run);           /* griddepcontrol.launch_dependents */
/* True if the running warp has waited for the previous kernel, or has acquired from a thread that has. */
bool order_waited(const struct run *run);
/* Call when the last thread of the running CTA ends. */
void order_cta_ends(struct run *run);
#endif
