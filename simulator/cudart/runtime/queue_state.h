/* What a stream and an event of the shim hold. */
#ifndef SIM_CUDART_QUEUE_STATE_H
#define SIM_CUDART_QUEUE_STATE_H

#include "cudart/shim.h"

/* Nodes of a graph that is being captured: the next node comes after all of them. */
struct captured {
    struct CUgraph_st *graph; /* NULL: none */
    struct CUgraphNode_st **nodes;
    size_t count;
};

struct CUevent_st {
    bool recorded, untimed;
    double ns;               /* time since the start of the process */
    struct sim_event *order; /* the launches and copies that it comes after */
    struct captured captured;
};

struct CUstream_st {
    unsigned number, flags;
    int priority;
    struct captured captured;
    struct CUstream_st *next; /* of those in the same capture */
};

#endif
