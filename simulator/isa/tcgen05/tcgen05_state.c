/* A CTA's tensor state: allocated at its first tcgen05 instruction, cleared for each CTA that reuses it. */
#include "tcgen05_state.h"

#include <stdlib.h>

static void clear(struct tensor *tensor, const struct cluster *cluster) {
    struct cell(*cells)[TMEM_COLUMNS] = tensor->cells;
    uint32_t *ordered[MAX_WARPS];
    for (int i = 0; i < MAX_WARPS; i++) {
        ordered[i] = tensor->warps[i].ordered;
    }
    memset(tensor->warps, 0, sizeof tensor->warps);
    memset(tensor->alloc, 0, sizeof tensor->alloc);
    for (int i = 0; i < MAX_WARPS; i++) {
        struct tensor_warp *warp = &tensor->warps[i];
        warp->ordered = ordered[i];
        warp->pipe.epoch = warp->loads.epoch = warp->stores.epoch = 1;
        if (warp->ordered != NULL) {
            memset(warp->ordered, 0, cluster->clock_capacity * sizeof *warp->ordered);
        }
    }
    if (cells != NULL) {
        memset(cells, 0, CELL_ROWS * sizeof *cells);
    }
    tmem_init(&tensor->tmem);
    tensor->run = cluster->number;
    tensor->used = true;
}

struct tensor *tensor_of(struct run *run, struct cta *cta) {
    struct tensor *tensor = cta->tensor;
    if (tensor == NULL) {
        tensor = cta->tensor = run_take(run->worker, 1, sizeof *tensor);
        if (run->cluster->checks) {
            tensor->cells = run_take(run->worker, CELL_ROWS, sizeof *tensor->cells);
        }
    }
    if (!tensor->used || tensor->run != cta->cluster->number) {
        clear(tensor, cta->cluster);
    }
    return tensor;
}

struct tensor_warp *tensor_warp(struct run *run) {
    struct tensor *tensor = tensor_of(run, run->cta);
    struct tensor_warp *warp = &tensor->warps[run->warp->index];
    if (run->cluster->checks && warp->ordered == NULL) {
        warp->ordered = run_take(run->worker, run->cluster->clock_capacity, sizeof *warp->ordered);
    }
    return warp;
}

void tensor_free(struct cta *cta) {
    struct tensor *tensor = cta->tensor;
    if (tensor != NULL) {
        for (int i = 0; i < MAX_WARPS; i++) {
            free(tensor->warps[i].ordered);
        }
        for (int i = 0; tensor->more != NULL && i < CELL_ROWS * TMEM_COLUMNS; i++) {
            free(tensor->more[i].record);
        }
        free(tensor->more);
        free(tensor->cells);
        free(tensor);
        cta->tensor = NULL;
    }
}

void tensor_at_end(struct cluster *cluster, struct cta *cta) {
    struct tensor *tensor = cta->tensor;
    struct tc_why why;
    if (tensor != NULL && tensor->used && tensor->run == cluster->number &&
        !tmem_check_exit(&tensor->tmem, &why)) {
        sim_note(cluster->launch, SIM_ERROR, "tensor-memory-leak", cta, -1, -1, NULL, NULL, "%s", why.text);
    }
    if (tensor != NULL) {
        tensor->used = false;
    }
}

enum next tensor_refuse(struct run *run, const char *kind, const struct tc_why *why) {
    return sim_report(run, why->unmodelled ? SIM_INCOMPLETE : SIM_ERROR, kind, -1, "%s", why->text);
}

bool tensor_uniform(struct run *run, struct operand operand, uint32_t mask, const char *what, uint64_t *value) {
    *value = lane_u64(run, operand, __builtin_ctz(mask));
    const uint32_t others = mask & ~lanes_with(run, operand, mask, *value);
    if (others != 0) {
        (void)sim_report(run, SIM_ERROR, "divergent-operand", LANE(others), "%s differs between lanes", what);
    }
    return others == 0;
}
