/* Execution of a graph: each node in a queue that waits for the nodes before it. */
#include "graph.h"
#include "runtime_launch.h"

static cudaError_t run_rows(const struct graph_rows *rows, cudaStream_t queue) {
    cudaError_t error = cudaSuccess;
    for (size_t i = 0; i < rows->depth * rows->height && error == cudaSuccess; i++) {
        const size_t slice = i / rows->height, row = i % rows->height;
        char *to = rows->to + slice * rows->to_slice + row * rows->to_pitch;
        error = rows->from == NULL
                    ? runtime_set(to, rows->value, rows->element_bytes, rows->width, queue)
                    : cudaMemcpyAsync(to, rows->from + slice * rows->from_slice + row * rows->from_pitch,
                                      rows->width, rows->kind, queue);
    }
    return error;
}

static cudaError_t run_node(struct CUgraphNode_st *node, cudaStream_t queue) {
    switch (node->disabled ? cudaGraphNodeTypeEmpty : node->type) {
    case cudaGraphNodeTypeKernel:
        return runtime_launch(node->function, &node->attributes, node->arguments, queue);
    case cudaGraphNodeTypeMemcpy:
    case cudaGraphNodeTypeMemset:
        return run_rows(&node->rows, queue);
    case cudaGraphNodeTypeHost:
        node->host(node->data);
        return cudaSuccess;
    case cudaGraphNodeTypeGraph:
        return graph_run(node->child, queue);
    case cudaGraphNodeTypeEventRecord:
        return cudaEventRecord(node->event, queue);
    case cudaGraphNodeTypeWaitEvent:
        return cudaStreamWaitEvent(queue, node->event, 0);
    default:
        return cudaSuccess;
    }
}

static bool may_run(const struct CUgraphNode_st *node) {
    bool ready = !node->done;
    for (size_t i = 0; i < node->nbefore && ready; i++) {
        ready = node->before[i]->done;
    }
    return ready;
}

/* Gives a node its queue, which waits for the nodes before it. */
static cudaError_t place(struct CUgraphNode_st *node, const struct sim_event *start) {
    struct sim *sim = runtime_lock();
    RETURN_IF_NO_MEMORY(sim);
    const bool goes_on = node->nbefore == 1 && !node->before[0]->goes_on;
    node->owns_queue = !goes_on;
    node->goes_on = false;
    if (goes_on) {
        node->before[0]->goes_on = true;
    }
    node->queue = goes_on ? node->before[0]->queue : sim_queue_create(sim, 0);
    int status = node->queue == 0 ? SIM_NO_MEMORY : goes_on ? SIM_OK : sim_queue_wait(sim, node->queue, start);
    for (size_t i = 0; i < node->nbefore && !goes_on && status == SIM_OK; i++) {
        status = sim_queue_wait(sim, node->queue, node->before[i]->end);
    }
    runtime_unlock();
    return status == SIM_OK ? cudaSuccess : cudaErrorMemoryAllocation;
}

static cudaError_t record_end(struct CUgraphNode_st *node) {
    struct sim *sim = runtime_lock();
    RETURN_IF_NO_MEMORY(sim);
    node->end = sim_event_record(sim, node->queue);
    node->done = true;
    runtime_unlock();
    return node->end == NULL ? cudaErrorMemoryAllocation : cudaSuccess;
}

static cudaError_t run_all(struct CUgraph_st *graph, const struct sim_event *start) {
    cudaError_t error = cudaSuccess;
    for (bool progress = true; progress && error == cudaSuccess;) { /* mostly one round: nodes stand in order */
        progress = false;
        for (struct CUgraphNode_st *node = graph->first; node != NULL && error == cudaSuccess;
             node = node->next) {
            if (may_run(node)) {
                error = place(node, start);
                struct CUstream_st queue = {.number = node->queue};
                error = error == cudaSuccess ? run_node(node, &queue) : error;
                error = error == cudaSuccess ? record_end(node) : error;
                progress = true;
            }
        }
    }
    return error;
}

cudaError_t graph_run(struct CUgraph_st *graph, cudaStream_t queue) {
    struct sim *sim = runtime_lock();
    RETURN_IF_NO_MEMORY(sim);
    const unsigned number = runtime_queue(sim, queue);
    struct sim_event *start = sim_event_record(sim, number);
    runtime_unlock();
    for (struct CUgraphNode_st *node = graph->first; node != NULL; node = node->next) {
        node->done = node->goes_on = node->owns_queue = false;
        node->queue = 0;
    }
    cudaError_t error = start == NULL ? cudaErrorMemoryAllocation : run_all(graph, start);
    sim = runtime_lock();
    for (struct CUgraphNode_st *node = graph->first; sim != NULL && node != NULL; node = node->next) {
        if (node->end != NULL) {
            (void)sim_queue_wait(sim, number, node->end);
            sim_event_free(node->end);
            node->end = NULL;
        }
    }
    for (struct CUgraphNode_st *node = graph->first; sim != NULL && node != NULL; node = node->next) {
        if (node->owns_queue && node->queue != 0) {
            sim_queue_destroy(sim, node->queue);
        }
    }
    sim_event_free(start);
    if (sim != NULL) {
        runtime_unlock();
    }
    return error;
}
