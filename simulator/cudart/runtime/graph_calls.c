/* The functions of CUDA that make, change and launch graphs. */
#include <stdlib.h>

#include "graph.h"

static cudaError_t added(const struct CUgraphNode_st *node) {
    return runtime_result(node == NULL ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaGraphCreate(cudaGraph_t *graph, unsigned flags) {
    (void)flags;
    *graph = graph_make();
    return runtime_result(*graph == NULL ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
    graph_free(graph);
    return runtime_result(graph == NULL ? cudaErrorInvalidValue : cudaSuccess);
}

cudaError_t cudaGraphClone(cudaGraph_t *clone, cudaGraph_t graph) {
    *clone = graph_copy(graph);
    return runtime_result(*clone == NULL ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t *node, cudaGraphNode_t origin, cudaGraph_t clone) {
    *node = graph_node_of(clone, origin);
    return runtime_result(*node == NULL ? cudaErrorInvalidValue : cudaSuccess);
}

/* The functions that add a node of a kind and change it, in a graph and in an executable one. */
#define NODE_CALLS(kind, parameters, set)                                                                      \
    cudaError_t cudaGraphAdd##kind##Node(cudaGraphNode_t *node, cudaGraph_t graph,                             \
                                         const cudaGraphNode_t *before, size_t count,                          \
                                         const struct parameters *params) {                                    \
        *node = graph_add(graph, cudaGraphNodeType##kind, before, count);                                      \
        return *node == NULL ? added(*node) : set(*node, params);                                              \
    }                                                                                                          \
    cudaError_t cudaGraph##kind##NodeSetParams(cudaGraphNode_t node, const struct parameters *params) {        \
        return set(node, params);                                                                              \
    }                                                                                                          \
    cudaError_t cudaGraphExec##kind##NodeSetParams(cudaGraphExec_t exec, cudaGraphNode_t node,                 \
                                                   const struct parameters *params) {                          \
        return set(graph_node_of(exec->graph, node), params);                                                  \
    }

/* ---- kernels ---- */

static struct sim_launch_attributes attributes_of(const struct cudaKernelNodeParams *params) {
    return (struct sim_launch_attributes){.grid = {params->gridDim.x, params->gridDim.y, params->gridDim.z},
                                          .block = {params->blockDim.x, params->blockDim.y, params->blockDim.z},
                                          .dynamic_shared_bytes = params->sharedMemBytes};
}

static cudaError_t set_kernel(struct CUgraphNode_st *node, const struct cudaKernelNodeParams *params) {
    if (node == NULL || node->type != cudaGraphNodeTypeKernel) {
        return runtime_result(cudaErrorInvalidValue);
    }
    if (params->extra != NULL) {
        return runtime_unmodelled("kernel nodes with `extra`");
    }
    const struct sim_launch_attributes attributes = attributes_of(params);
    return runtime_result(graph_set_kernel(node, params->func, &attributes, params->kernelParams)
                              ? cudaSuccess
                              : cudaErrorInvalidDeviceFunction);
}

NODE_CALLS(Kernel, cudaKernelNodeParams, set_kernel)

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, struct cudaKernelNodeParams *params) {
    if (node->type != cudaGraphNodeTypeKernel) {
        return runtime_result(cudaErrorInvalidValue);
    }
    const struct sim_launch_attributes *a = &node->attributes;
    *params = (struct cudaKernelNodeParams){.func = (void *)(uintptr_t)node->function,
                                            .gridDim = {a->grid[0], a->grid[1], a->grid[2]},
                                            .blockDim = {a->block[0], a->block[1], a->block[2]},
                                            .sharedMemBytes = a->dynamic_shared_bytes,
                                            .kernelParams = node->arguments};
    return runtime_result(cudaSuccess);
}

/* ---- copies and fills ---- */

/* Not of arrays, which are not modelled. */
static bool rows_of_copy(const struct cudaMemcpy3DParms *params, struct graph_rows *rows) {
    const struct cudaPitchedPtr *to = &params->dstPtr, *from = &params->srcPtr;
    *rows = (struct graph_rows){
        .to_pitch = to->pitch,
        .from_pitch = from->pitch,
        .to_slice = to->pitch * to->ysize,
        .from_slice = from->pitch * from->ysize,
        .width = params->extent.width,
        .height = params->extent.height,
        .depth = params->extent.depth,
        .kind = params->kind,
    };
    if (params->srcArray != NULL || params->dstArray != NULL || to->ptr == NULL || from->ptr == NULL) {
        return false;
    }
    rows->to =
        (char *)to->ptr + params->dstPos.x + params->dstPos.y * to->pitch + params->dstPos.z * rows->to_slice;
    rows->from = (char *)from->ptr + params->srcPos.x + params->srcPos.y * from->pitch +
                 params->srcPos.z * rows->from_slice;
    return true;
}

static cudaError_t set_rows(struct CUgraphNode_st *node, enum cudaGraphNodeType type,
                            const struct graph_rows *rows) {
    if (node == NULL || node->type != type) {
        return runtime_result(cudaErrorInvalidValue);
    }
    node->rows = *rows;
    return runtime_result(cudaSuccess);
}

static cudaError_t set_copy(struct CUgraphNode_st *node, const struct cudaMemcpy3DParms *params) {
    struct graph_rows rows;
    return rows_of_copy(params, &rows) ? set_rows(node, cudaGraphNodeTypeMemcpy, &rows)
                                       : runtime_unmodelled("copies of arrays in graphs");
}

NODE_CALLS(Memcpy, cudaMemcpy3DParms, set_copy)

static struct graph_rows rows_of_line(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    return (struct graph_rows){.to = to, .from = from, .width = bytes, .height = 1, .depth = 1, .kind = kind};
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                                     size_t count, void *to, const void *from, size_t bytes,
                                     enum cudaMemcpyKind kind) {
    const struct graph_rows rows = rows_of_line(to, from, bytes, kind);
    *node = graph_add(graph, cudaGraphNodeTypeMemcpy, before, count);
    return *node == NULL ? added(*node) : set_rows(*node, cudaGraphNodeTypeMemcpy, &rows);
}

cudaError_t cudaGraphMemcpyNodeSetParams1D(cudaGraphNode_t node, void *to, const void *from, size_t bytes,
                                           enum cudaMemcpyKind kind) {
    const struct graph_rows rows = rows_of_line(to, from, bytes, kind);
    return set_rows(node, cudaGraphNodeTypeMemcpy, &rows);
}

cudaError_t cudaGraphExecMemcpyNodeSetParams1D(cudaGraphExec_t exec, cudaGraphNode_t node, void *to,
                                               const void *from, size_t bytes, enum cudaMemcpyKind kind) {
    return cudaGraphMemcpyNodeSetParams1D(graph_node_of(exec->graph, node), to, from, bytes, kind);
}

static cudaError_t set_fill(struct CUgraphNode_st *node, const struct cudaMemsetParams *params) {
    const struct graph_rows rows = {.to = params->dst,
                                    .to_pitch = params->pitch,
                                    .width = params->width,
                                    .height = params->height == 0 ? 1 : params->height,
                                    .depth = 1,
                                    .value = params->value,
                                    .element_bytes = params->elementSize};
    return set_rows(node, cudaGraphNodeTypeMemset, &rows);
}

NODE_CALLS(Memset, cudaMemsetParams, set_fill)

/* ---- the other nodes ---- */

static cudaError_t set_host(struct CUgraphNode_st *node, const struct cudaHostNodeParams *params) {
    if (node == NULL || node->type != cudaGraphNodeTypeHost) {
        return runtime_result(cudaErrorInvalidValue);
    }
    node->host = params->fn;
    node->data = params->userData;
    return runtime_result(cudaSuccess);
}

NODE_CALLS(Host, cudaHostNodeParams, set_host)

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                                  size_t count) {
    *node = graph_add(graph, cudaGraphNodeTypeEmpty, before, count);
    return added(*node);
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                                       size_t count, cudaGraph_t child) {
    *node = graph_add(graph, cudaGraphNodeTypeGraph, before, count);
    if (*node != NULL) {
        (*node)->child = graph_copy(child);
    }
    return runtime_result(*node == NULL || (*node)->child == NULL ? cudaErrorMemoryAllocation : cudaSuccess);
}

static cudaError_t add_event(cudaGraphNode_t *node, cudaGraph_t graph, enum cudaGraphNodeType type,
                             const cudaGraphNode_t *before, size_t count, cudaEvent_t event) {
    *node = graph_add(graph, type, before, count);
    if (*node != NULL) {
        (*node)->event = event;
    }
    return added(*node);
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                                        size_t count, cudaEvent_t event) {
    return add_event(node, graph, cudaGraphNodeTypeEventRecord, before, count, event);
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t *node, cudaGraph_t graph, const cudaGraphNode_t *before,
                                      size_t count, cudaEvent_t event) {
    return add_event(node, graph, cudaGraphNodeTypeWaitEvent, before, count, event);
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t *from, const cudaGraphNode_t *to,
                                     const cudaGraphEdgeData *edges, size_t count) {
    (void)graph;
    (void)edges;
    for (size_t i = 0; i < count; i++) {
        struct CUgraphNode_st **grown =
            (struct CUgraphNode_st **)realloc((void *)to[i]->before, (to[i]->nbefore + 2) * sizeof *grown);
        if (grown == NULL) {
            return runtime_result(cudaErrorMemoryAllocation);
        }
        to[i]->before = grown;
        grown[to[i]->nbefore++] = from[i];
    }
    return runtime_result(cudaSuccess);
}

static cudaError_t list_nodes(const struct CUgraph_st *graph, bool roots, cudaGraphNode_t *nodes,
                              size_t *count) {
    size_t found = 0;
    for (struct CUgraphNode_st *node = graph->first; node != NULL; node = node->next) {
        if (!roots || node->nbefore == 0) {
            if (nodes != NULL && found < *count) {
                nodes[found] = node;
            }
            found++;
        }
    }
    *count = nodes == NULL || found < *count ? found : *count;
    return runtime_result(cudaSuccess);
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    return list_nodes(graph, false, nodes, count);
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    return list_nodes(graph, true, nodes, count);
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, enum cudaGraphNodeType *type) {
    *type = node->type;
    return runtime_result(cudaSuccess);
}

/* ---- executable graphs ---- */

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags) {
    (void)flags;
    *exec = calloc(1, sizeof **exec);
    if (*exec != NULL) {
        (*exec)->graph = graph_copy(graph);
    }
    return runtime_result(*exec == NULL || (*exec)->graph == NULL ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags) {
    return cudaGraphInstantiate(exec, graph, flags);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
    if (exec != NULL) {
        graph_free(exec->graph);
        free(exec);
    }
    return runtime_result(exec == NULL ? cudaErrorInvalidValue : cudaSuccess);
}

cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t queue) {
    (void)queue;
    return runtime_result(exec == NULL ? cudaErrorInvalidValue : cudaSuccess);
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t queue) {
    cudaError_t error;
    if (capture_refuses(queue, &error)) {
        return runtime_unmodelled("cudaGraphLaunch into a captured stream");
    }
    return runtime_result(exec == NULL ? cudaErrorInvalidValue : graph_run(exec->graph, queue));
}

cudaError_t cudaGraphNodeSetEnabled(cudaGraphExec_t exec, cudaGraphNode_t origin, unsigned enabled) {
    struct CUgraphNode_st *node = graph_node_of(exec->graph, origin);
    if (node == NULL) {
        return runtime_result(cudaErrorInvalidValue);
    }
    node->disabled = enabled == 0;
    return runtime_result(cudaSuccess);
}

cudaError_t cudaGraphNodeGetEnabled(cudaGraphExec_t exec, cudaGraphNode_t origin, unsigned *enabled) {
    const struct CUgraphNode_st *node = graph_node_of(exec->graph, origin);
    *enabled = node != NULL && !node->disabled;
    return runtime_result(node == NULL ? cudaErrorInvalidValue : cudaSuccess);
}

static size_t place_in(const struct CUgraph_st *graph, const struct CUgraphNode_st *node) {
    size_t place = 0;
    for (const struct CUgraphNode_st *at = graph->first; at != node && at != NULL; at = at->next) {
        place++;
    }
    return place;
}

/* The nodes correspond in the order in which they were added. */
static bool same_shape(const struct CUgraph_st *a, const struct CUgraph_st *b) {
    const struct CUgraphNode_st *left = a->first, *right = b->first;
    bool same = a->count == b->count;
    for (; same && left != NULL; left = left->next, right = right->next) {
        same = left->type == right->type && left->nbefore == right->nbefore;
        for (size_t i = 0; same && i < left->nbefore; i++) {
            same = place_in(a, left->before[i]) == place_in(b, right->before[i]);
        }
    }
    return same;
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph, cudaGraphExecUpdateResultInfo *info) {
    const bool same = same_shape(exec->graph, graph);
    bool done = same;
    struct CUgraphNode_st *node = exec->graph->first;
    for (struct CUgraphNode_st *from = graph->first; done && from != NULL;
         from = from->next, node = node->next) {
        done = graph_set_work(node, from);
        node->origin = from;
    }
    *info = (cudaGraphExecUpdateResultInfo){.result = same ? cudaGraphExecUpdateSuccess
                                                           : cudaGraphExecUpdateErrorTopologyChanged};
    return runtime_result(done   ? cudaSuccess
                          : same ? cudaErrorMemoryAllocation
                                 : cudaErrorGraphExecUpdateFailure);
}
