/* Graphs: their nodes, and copies of them. */
#include "graph.h"

#include <stdlib.h>

struct CUgraph_st *graph_make(void) {
    return calloc(1, sizeof(struct CUgraph_st));
}

void graph_free(struct CUgraph_st *graph) {
    for (struct CUgraphNode_st *node = graph == NULL ? NULL : graph->first, *next; node != NULL; node = next) {
        next = node->next;
        graph_free(node->child);
        free((void *)node->before);
        free((void *)node->arguments);
        free(node);
    }
    free(graph);
}

struct CUgraphNode_st *graph_add(struct CUgraph_st *graph, enum cudaGraphNodeType type,
                                 struct CUgraphNode_st *const *before, size_t count) {
    struct CUgraphNode_st *node = calloc(1, sizeof *node);
    struct CUgraphNode_st **list = (struct CUgraphNode_st **)malloc((count + 1) * sizeof *list);
    if (node == NULL || list == NULL) {
        free(node);
        free((void *)list);
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        list[i] = before[i];
    }
    *node = (struct CUgraphNode_st){.graph = graph, .type = type, .before = list, .nbefore = count};
    *(graph->last == NULL ? &graph->first : &graph->last->next) = node;
    graph->last = node;
    graph->count++;
    return node;
}

bool graph_set_kernel(struct CUgraphNode_st *node, const void *function,
                      const struct sim_launch_attributes *attributes, void **arguments) {
    size_t bytes = 0;
    void **values = registry_copy_arguments(function, arguments, &bytes);
    if (values == NULL) {
        return false;
    }
    free((void *)node->arguments);
    node->function = function;
    node->attributes = *attributes;
    node->arguments = values;
    node->argument_bytes = bytes;
    return true;
}

bool graph_set_work(struct CUgraphNode_st *node, const struct CUgraphNode_st *from) {
    if (from->type == cudaGraphNodeTypeKernel &&
        !graph_set_kernel(node, from->function, &from->attributes, from->arguments)) {
        return false;
    }
    if (from->child != NULL) {
        struct CUgraph_st *child = graph_copy(from->child);
        if (child == NULL) {
            return false;
        }
        graph_free(node->child);
        node->child = child;
    }
    node->rows = from->rows;
    node->host = from->host;
    node->data = from->data;
    node->event = from->event;
    return true;
}

struct CUgraphNode_st *graph_node_of(const struct CUgraph_st *graph, const struct CUgraphNode_st *origin) {
    struct CUgraphNode_st *node = graph == NULL ? NULL : graph->first;
    while (node != NULL && node->origin != origin) {
        node = node->next;
    }
    return node;
}

struct CUgraph_st *graph_copy(const struct CUgraph_st *graph) {
    struct CUgraph_st *made = graph_make();
    bool whole = made != NULL;
    for (struct CUgraphNode_st *from = graph->first; whole && from != NULL; from = from->next) {
        struct CUgraphNode_st *node = graph_add(made, from->type, from->before, from->nbefore);
        whole = node != NULL && graph_set_work(node, from);
        if (node != NULL) {
            node->origin = from;
            node->disabled = from->disabled;
        }
    }
    for (struct CUgraphNode_st *node = whole ? made->first : NULL; node != NULL; node = node->next) {
        for (size_t i = 0; i < node->nbefore; i++) {
            node->before[i] = graph_node_of(made, node->before[i]);
        }
    }
    if (!whole) {
        graph_free(made);
        return NULL;
    }
    return made;
}
