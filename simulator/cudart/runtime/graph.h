/* CUDA graphs: nodes that a program adds or captures, and their execution. */
#ifndef SIM_CUDART_GRAPH_H
#define SIM_CUDART_GRAPH_H

#include "queue_state.h"

struct graph_rows {
    char *to;
    const char *from; /* a copy; NULL: a fill */
    size_t to_pitch, from_pitch, to_slice, from_slice;
    size_t width, height, depth; /* width: bytes of a copy, elements of a fill */
    enum cudaMemcpyKind kind;
    unsigned value, element_bytes;
};

struct CUgraphNode_st {
    struct CUgraphNode_st *next;
    struct CUgraph_st *graph;
    enum cudaGraphNodeType type;
    bool disabled;
    struct CUgraphNode_st **before; /* the nodes that it comes after */
    size_t nbefore;
    struct CUgraphNode_st *origin; /* in an executable graph or a clone: the node that it was made of */
    /* kernel */
    const void *function;
    struct sim_launch_attributes attributes;
    void **arguments; /* one block: pointers, then the values */
    size_t argument_bytes;
    struct graph_rows rows; /* copy, fill */
    cudaHostFn_t host;
    void *data;
    struct CUgraph_st *child;
    cudaEvent_t event;
    /* while the graph runs */
    bool done, goes_on, owns_queue;
    unsigned queue;
    struct sim_event *end;
};

struct CUgraph_st {
    struct CUgraphNode_st *first, *last;
    size_t count;
    struct CUstream_st *capturing; /* the streams whose work is captured here; the first began it */
};

struct CUgraphExec_st {
    struct CUgraph_st *graph;
};

struct CUgraph_st *graph_make(void);                           /* NULL: no memory */
struct CUgraph_st *graph_copy(const struct CUgraph_st *graph); /* NULL: no memory */
void graph_free(struct CUgraph_st *graph);
/* Adds a node after others; NULL: no memory. */
struct CUgraphNode_st *graph_add(struct CUgraph_st *graph, enum cudaGraphNodeType type,
                                 struct CUgraphNode_st *const *before, size_t count);
/* The node that was made of another; NULL: none. */
struct CUgraphNode_st *graph_node_of(const struct CUgraph_st *graph, const struct CUgraphNode_st *origin);
/* Sets what a kernel node launches; false: no such kernel, or no memory. */
bool graph_set_kernel(struct CUgraphNode_st *node, const void *function,
                      const struct sim_launch_attributes *attributes, void **arguments);
/* Takes over what another node of the same type does; false: no memory. */
bool graph_set_work(struct CUgraphNode_st *node, const struct CUgraphNode_st *from);
/* Runs all nodes, each in a queue of its own unless it only continues another. */
cudaError_t graph_run(struct CUgraph_st *graph, cudaStream_t queue);

/* ---- capture (capture.c): true if the stream is captured, and then *error is the call's result ---- */

bool capture_kernel(cudaStream_t queue, const void *function, const struct sim_launch_attributes *attributes,
                    void **arguments, cudaError_t *error);
bool capture_rows(cudaStream_t queue, const struct graph_rows *rows, cudaError_t *error);
bool capture_host(cudaStream_t queue, cudaHostFn_t function, void *data, cudaError_t *error);
bool capture_record(cudaStream_t queue, cudaEvent_t event);
bool capture_wait(cudaStream_t queue, cudaEvent_t event, cudaError_t *error);
/* An operation that has to wait or cannot be captured ends with an error. */
bool capture_refuses(cudaStream_t queue, cudaError_t *error);
void captured_free(struct captured *captured);

#endif
