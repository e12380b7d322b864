/* Capture of streams into graphs.  A captured call adds a node after the stream's last ones. */
#include <stdlib.h>

#include "graph.h"

static struct CUgraph_st *capture_of(cudaStream_t queue) {
    return queue == NULL || queue == cudaStreamLegacy || queue == cudaStreamPerThread ? NULL
                                                                                      : queue->captured.graph;
}

void captured_free(struct captured *captured) {
    free((void *)captured->nodes);
    *captured = (struct captured){.graph = NULL};
}

/* Adds the nodes of one set to another; false: no memory. */
static bool join(struct captured *to, const struct captured *from) {
    struct CUgraphNode_st **nodes =
        (struct CUgraphNode_st **)realloc((void *)to->nodes, (to->count + from->count + 1) * sizeof *nodes);
    if (nodes == NULL) {
        return false;
    }
    to->nodes = nodes;
    to->graph = from->graph;
    for (size_t i = 0; i < from->count; i++) {
        bool known = false;
        for (size_t j = 0; j < to->count && !known; j++) {
            known = nodes[j] == from->nodes[i];
        }
        if (!known) {
            nodes[to->count++] = from->nodes[i];
        }
    }
    return true;
}

/* The next node of a captured stream; NULL: no memory. */
static struct CUgraphNode_st *next_node(cudaStream_t queue, enum cudaGraphNodeType type) {
    struct captured *captured = &queue->captured;
    struct CUgraphNode_st *node = graph_add(captured->graph, type, captured->nodes, captured->count);
    if (node != NULL) {
        captured->nodes[0] = node; /* begin and join leave room for one */
        captured->count = 1;
    }
    return node;
}

bool capture_kernel(cudaStream_t queue, const void *function, const struct sim_launch_attributes *attributes,
                    void **arguments, cudaError_t *error) {
    if (capture_of(queue) == NULL) {
        return false;
    }
    struct CUgraphNode_st *node = next_node(queue, cudaGraphNodeTypeKernel);
    *error = node == NULL                                              ? cudaErrorMemoryAllocation
             : graph_set_kernel(node, function, attributes, arguments) ? cudaSuccess
                                                                       : cudaErrorInvalidDeviceFunction;
    return true;
}

bool capture_rows(cudaStream_t queue, const struct graph_rows *rows, cudaError_t *error) {
    if (capture_of(queue) == NULL) {
        return false;
    }
    struct CUgraphNode_st *node =
        next_node(queue, rows->from == NULL ? cudaGraphNodeTypeMemset : cudaGraphNodeTypeMemcpy);
    *error = node == NULL ? cudaErrorMemoryAllocation : cudaSuccess;
    if (node != NULL) {
        node->rows = *rows;
    }
    return true;
}

bool capture_host(cudaStream_t queue, cudaHostFn_t function, void *data, cudaError_t *error) {
    if (capture_of(queue) == NULL) {
        return false;
    }
    struct CUgraphNode_st *node = next_node(queue, cudaGraphNodeTypeHost);
    *error = node == NULL ? cudaErrorMemoryAllocation : cudaSuccess;
    if (node != NULL) {
        node->host = function;
        node->data = data;
    }
    return true;
}

bool capture_record(cudaStream_t queue, cudaEvent_t event) {
    captured_free(&event->captured);
    return capture_of(queue) != NULL && join(&event->captured, &queue->captured);
}

bool capture_wait(cudaStream_t queue, cudaEvent_t event, cudaError_t *error) {
    struct CUgraph_st *graph = event->captured.graph;
    if (graph == NULL && capture_of(queue) == NULL) {
        return false;
    }
    if (queue == NULL || queue == cudaStreamLegacy || queue == cudaStreamPerThread || graph == NULL ||
        (capture_of(queue) != NULL && capture_of(queue) != graph)) {
        *error = cudaErrorStreamCaptureIsolation;
        return true;
    }
    if (queue->captured.graph == NULL) {
        queue->next = graph->capturing->next;
        graph->capturing->next = queue;
    }
    *error = join(&queue->captured, &event->captured) ? cudaSuccess : cudaErrorMemoryAllocation;
    return true;
}

bool capture_refuses(cudaStream_t queue, cudaError_t *error) {
    *error = cudaErrorStreamCaptureUnsupported;
    return capture_of(queue) != NULL;
}

static cudaError_t begin(cudaStream_t queue, struct CUgraph_st *graph) {
    struct CUgraphNode_st **room = (struct CUgraphNode_st **)calloc(1, sizeof *room);
    if (graph == NULL || room == NULL) {
        free((void *)room);
        return cudaErrorMemoryAllocation;
    }
    queue->captured = (struct captured){.graph = graph, .nodes = room};
    queue->next = NULL;
    graph->capturing = queue;
    return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t queue, enum cudaStreamCaptureMode mode) {
    (void)mode;
    if (queue == NULL || queue == cudaStreamLegacy || queue == cudaStreamPerThread) {
        return queue == cudaStreamPerThread
                   ? runtime_unmodelled("cudaStreamBeginCapture of cudaStreamPerThread")
                   : runtime_result(cudaErrorStreamCaptureUnsupported);
    }
    return runtime_result(capture_of(queue) != NULL ? cudaErrorIllegalState : begin(queue, graph_make()));
}

cudaError_t cudaStreamEndCapture(cudaStream_t queue, cudaGraph_t *graph) {
    struct CUgraph_st *made = capture_of(queue);
    *graph = NULL;
    if (made == NULL || made->capturing != queue) {
        return runtime_result(made == NULL ? cudaErrorIllegalState : cudaErrorStreamCaptureUnmatched);
    }
    bool joined = true; /* every stream's last node has to come before a node that the first stream knows */
    for (struct CUstream_st *each = queue->next, *next; each != NULL; each = next) {
        next = each->next;
        for (size_t i = 0; i < each->captured.count; i++) {
            bool known = false;
            for (const struct CUgraphNode_st *node = made->first; node != NULL && !known; node = node->next) {
                for (size_t j = 0; j < node->nbefore; j++) {
                    known |= node->before[j] == each->captured.nodes[i];
                }
            }
            for (size_t j = 0; j < queue->captured.count; j++) {
                known |= queue->captured.nodes[j] == each->captured.nodes[i];
            }
            joined &= known;
        }
        captured_free(&each->captured);
    }
    captured_free(&queue->captured);
    made->capturing = NULL;
    if (!joined) {
        graph_free(made);
        return runtime_result(cudaErrorStreamCaptureUnjoined);
    }
    *graph = made;
    return runtime_result(cudaSuccess);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t queue, enum cudaStreamCaptureStatus *status) {
    *status = capture_of(queue) == NULL ? cudaStreamCaptureStatusNone : cudaStreamCaptureStatusActive;
    return runtime_result(cudaSuccess);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    static _Thread_local enum cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
    enum cudaStreamCaptureMode before = current;
    current = *mode;
    *mode = before;
    return runtime_result(cudaSuccess);
}
