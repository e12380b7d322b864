/* Allocates a cluster, resets it to its kernel's first instruction, and fills special registers. */
#include <stdlib.h>

#include "async/async.h"
#include "async/map_change.h"
#include "clock/timing.h"
#include "hazard/hazard.h"
#include "interp/interp.h"
#include "isa/tcgen05/tcgen05_interp.h"
#include "isa/wgmma/warpgroup.h"

#define TRAP_PATTERN 0xb5 /* fills shared memory at a CTA's start: as a number negative and implausible */

static void make_warp(struct warp *warp, struct worker *worker) {
    const struct launch *launch = worker->launch;
    warp->regs = run_take_aligned(worker, 64, launch->reg_bytes + 64);
    warp->preds = run_take(worker, 1, launch->pred_bytes + 64);
    warp->local = run_take(worker, LANES, launch->local_bytes + 1);
    warp->split_store = run_take(worker, LANES, sizeof *warp->split_store);
    warp->frames = run_take(worker, (size_t)LANES * launch->call_depth + 1, sizeof *warp->frames);
    for (uint32_t i = 0; i < LANES; i++) {
        warp->split_store[i].stack = &warp->frames[(size_t)i * launch->call_depth];
    }
    warp->reg_pending = run_take(worker, launch->reg_bytes / ROW32 + 1, sizeof *warp->reg_pending);
    warp->reg_written = run_take(worker, launch->reg_bytes / ROW32 + 1, sizeof *warp->reg_written);
    warp->groups = groups_make(worker);
    if (launch->timing != NULL) {
        warp_time_make(warp, worker);
    }
}

static void make_cta(struct cta *cta, struct cluster *cluster, uint32_t rank) {
    struct worker *worker = cluster->worker;
    const struct launch *launch = cluster->launch;
    cta->cluster = cluster;
    cta->rank = rank;
    cta->nwarps = launch->warps;
    cta->nthreads = launch->threads;
    cta->shared_bytes = SHARED_RESERVED + launch->shared_bytes;
    cta->shared = run_take_aligned(worker, 1024, cta->shared_bytes + 1024);
    cta->warps = run_take(worker, cta->nwarps, sizeof *cta->warps);
    mbarriers_make(cta);
    cta->warpgroups = warpgroups_make(worker, (cta->nwarps + 3) / 4);
    if (launch->checks) {
        shadow_make(cta);
    }
    if (launch->checks && cluster->nctas > 1) {
        remote_make(cta);
    }
    for (uint32_t i = 0; i < cta->nwarps; i++) {
        struct warp *warp = &cta->warps[i];
        warp->cta = cta;
        warp->index = i;
        warp->number = rank * cta->nwarps + i;
        make_warp(warp, worker);
    }
}

void cluster_make(struct worker *worker) {
    struct launch *launch = worker->launch;
    struct cluster *cluster = run_take(worker, 1, sizeof *cluster);
    worker->resident[worker->made++] = cluster;
    cluster->worker = worker;
    cluster->launch = launch;
    cluster->nctas = launch->cluster[0] * launch->cluster[1] * launch->cluster[2];
    /* Clock indices per warp: the warp and a single lane of it; cp.async and bulk groups, read and complete; a
     * quarter of its warpgroup's wgmma; tcgen05's pipe, ld and st. Per CTA: the mbarriers. */
    const uint32_t of_warp = 11, of_cta = 96;
    cluster->clock_capacity = cluster->nctas * (launch->warps * of_warp + of_cta) + 2;
    cluster->execution_indices = run_take(worker, cluster->clock_capacity, sizeof *cluster->execution_indices);
    cluster->ctas = run_take(worker, cluster->nctas, sizeof *cluster->ctas);
    for (uint32_t i = 0; i < cluster->nctas; i++) {
        make_cta(&cluster->ctas[i], cluster, i);
    }
}

void cluster_free(struct cluster *cluster) {
    for (uint32_t i = 0; cluster->ctas != NULL && i < cluster->nctas; i++) {
        struct cta *cta = &cluster->ctas[i];
        for (uint32_t j = 0; cta->warps != NULL && j < cta->nwarps; j++) {
            struct warp *warp = &cta->warps[j];
            free(warp->regs);
            free(warp->preds);
            free(warp->local);
            free(warp->split_store);
            free(warp->frames);
            free(warp->reg_pending);
            free(warp->reg_written);
            free(warp->in_flight);
            groups_free(warp->groups);
            warp_time_free(warp);
        }
        free(cta->warps);
        free(cta->shared);
        mbarriers_free(cta->mbarriers);
        warpgroups_free(cta->warpgroups);
        shadow_free(cta->shadow);
        remote_free(cta->remote);
        tensor_free(cta);
    }
    checks_free(cluster);
    map_changes_free(cluster->map_changes);
    free(cluster->execution_indices);
    free(cluster->ctas);
    free(cluster);
}

/* ---- special registers ---- */

static uint32_t special_lane(const struct warp *warp, unsigned kind, uint32_t lane) {
    const struct cta *cta = warp->cta;
    const struct cluster *cluster = cta->cluster;
    const struct launch *launch = cluster->launch;
    uint32_t thread = warp->index * LANES + lane, rank = cta->rank;
    switch (kind) {
    case SR_TID_X:
        return thread < launch->block[0] ? thread : thread % launch->block[0];
    case SR_TID_Y:
        return thread < launch->block[0] ? 0 : thread / launch->block[0] % launch->block[1];
    case SR_TID_Z:
        return launch->block[2] == 1 ? 0 : thread / launch->block[0] / launch->block[1];
    case SR_NTID_X:
    case SR_NTID_Y:
    case SR_NTID_Z:
        return launch->block[kind - SR_NTID_X];
    case SR_CTAID_X:
    case SR_CTAID_Y:
    case SR_CTAID_Z:
        return cta->index[kind - SR_CTAID_X];
    case SR_NCTAID_X:
    case SR_NCTAID_Y:
    case SR_NCTAID_Z:
        return launch->grid[kind - SR_NCTAID_X];
    case SR_LANEID:
        return lane;
    case SR_WARPID:
        return warp->index;
    case SR_NWARPID:
        return launch->warps;
    case SR_SMID:
        return launch->timing != NULL
                   ? cta->sm
                   : (uint32_t)((cluster->number * cluster->nctas + rank) % launch->sim->options.sms);
    case SR_ENVREG1:
        return launch->workspace >> 32;
    case SR_ENVREG2:
        return (uint32_t)launch->workspace;
    case SR_NSMID:
        return launch->sim->options.sms;
    case SR_CLUSTERID_X:
    case SR_CLUSTERID_Y:
    case SR_CLUSTERID_Z:
        return cluster->index[kind - SR_CLUSTERID_X];
    case SR_NCLUSTERID_X:
    case SR_NCLUSTERID_Y:
    case SR_NCLUSTERID_Z:
        return launch->clusters[kind - SR_NCLUSTERID_X];
    case SR_CLUSTER_CTAID_X:
    case SR_CLUSTER_CTAID_Y:
    case SR_CLUSTER_CTAID_Z:
        return cta->index[kind - SR_CLUSTER_CTAID_X] % launch->cluster[kind - SR_CLUSTER_CTAID_X];
    case SR_CLUSTER_NCTAID_X:
    case SR_CLUSTER_NCTAID_Y:
    case SR_CLUSTER_NCTAID_Z:
        return launch->cluster[kind - SR_CLUSTER_NCTAID_X];
    case SR_CLUSTER_CTARANK:
        return rank;
    case SR_CLUSTER_NCTARANK:
        return cluster->nctas;
    case SR_IS_EXPLICIT_CLUSTER:
        return launch->clustered;
    case SR_LANEMASK_EQ:
        return 1u << lane;
    case SR_LANEMASK_LE:
        return (uint32_t)(((uint64_t)2 << lane) - 1);
    case SR_LANEMASK_LT:
        return (1u << lane) - 1;
    case SR_LANEMASK_GE:
        return ~((1u << lane) - 1);
    case SR_LANEMASK_GT:
        return ~(uint32_t)(((uint64_t)2 << lane) - 1);
    case SR_DYNAMIC_SMEM_SIZE:
        return launch->dynamic_shared;
    case SR_TOTAL_SMEM_SIZE:
        return launch->shared_bytes;
    case SR_RESERVED_SMEM_END:
    case SR_RESERVED_SMEM_CAP:
        return SHARED_RESERVED;
    case SR_RESERVED_SMEM_1:
        return SHARED_RESERVED - SHARED_SCRATCH;
    default:
        return 0;
    }
}

static bool differs_by_lane(unsigned kind) {
    return (kind >= SR_TID_X && kind <= SR_TID_Z) || kind == SR_LANEID ||
           (kind >= SR_LANEMASK_EQ && kind <= SR_LANEMASK_GT);
}

static void fill_specials(struct warp *warp, const struct function *function) {
    const struct launch *launch = warp->cta->cluster->launch;
    uint8_t *base = warp->regs + launch->reg_base[function->index];
    for (uint32_t i = 0; i < function->nspecials; i++) {
        const struct special *special = &function->specials[i];
        if (special->width == SPECIAL_PREDICATE) {
            uint32_t lanes = special_lane(warp, special->kind, 0) != 0 ? ALL_LANES : 0;
            memcpy(warp->preds + launch->pred_base[function->index] + special->off, &lanes, sizeof lanes);
            continue;
        }
        const size_t bytes = special->width == SPECIAL_64 ? 8 : 4;
        uint64_t value;
        if (special->kind == SR_SHARED_SYMBOL || special->kind == SR_DYNAMIC_SYMBOL) {
            uint64_t start =
                special->variable == NULL ? warp->cta->dynamic_at : launch->shared_at[special->variable->index];
            value = ((uint64_t)warp->cta->rank << RANK_SHIFT) + start + (uint64_t)special->value;
        } else if (special->kind == SR_LOCAL_SYMBOL) {
            value = launch->local_base[function->index] + (uint64_t)special->value;
        } else {
            value = special_lane(warp, special->kind, 0);
        }
        const bool differs = differs_by_lane(special->kind);
        for (uint32_t lane = 0; lane < LANES; lane++) {
            value = differs ? special_lane(warp, special->kind, lane) : value;
            memcpy(base + special->off + lane * bytes, &value, bytes);
        }
    }
}

static void start_warp(struct warp *warp) {
    const struct launch *launch = warp->cta->cluster->launch;
    const struct module *module = launch->module;
    uint32_t first = warp->index * LANES;
    uint32_t threads = launch->threads - first < LANES ? launch->threads - first : LANES;
    warp->live = threads == LANES ? ALL_LANES : (1u << threads) - 1;
    memset(warp->regs, 0, launch->reg_bytes);
    memset(warp->preds, 0, launch->pred_bytes);
    for (uint32_t i = 0; i < module->nfunctions; i++) {
        if (launch->reg_base[i] != UINT32_MAX) {
            memset(warp->preds + launch->pred_base[i], 0xff, 4); /* the always-true predicate */
            fill_specials(warp, module->functions[i]);
        }
    }
    warp->split_used = 1;
    warp->nsplits = 1;
    warp->splits[0] = &warp->split_store[0];
    *warp->splits[0] = (struct split){.mask = warp->live,
                                      .pc = launch->kernel->first_pc,
                                      .function = launch->kernel,
                                      .local_base = launch->local_base[launch->kernel->index],
                                      .local_top = launch->local_stack,
                                      .stack = warp->frames};
    warp->executed = 0;
    warp->fruitless = false;
    warp->polled = 0; /* no event's number: the place's last cluster must not make a first poll fruitless */
    warp->cluster_arrivals = warp->cluster_open = warp->synced_time = warp->unwaited = 0;
    warp->awaited_time = warp->awaited_by = warp->fenced_time = 0;
    warp->settled = 0;
    warp->copies_index = 0;
    memset(warp->copies_seen, 0, sizeof warp->copies_seen);
    warp->whole_time = warp->nparties = warp->maxnregs = 0;
    memset(warp->reg_pending, 0, (launch->reg_bytes / ROW32 + 1) * sizeof *warp->reg_pending);
    for (uint32_t i = 0; i <= launch->reg_bytes / ROW32; i++) {
        warp->reg_written[i] = 1 << WRITE_BITS | BY_OTHERS; /* epoch 1, before the first wgmma.fence */
    }
    warp->fence_epoch = 1;
    warp->fence_used = false;
    warp->npending = 0;
    groups_reset(warp);
    warp->clock = NULL;
    if (warp->cta->cluster->checks) {
        warp->clock = vclock_make(warp->cta->cluster);
        warp_tick(warp);
    }
}

static void start_cta(struct cta *cta) {
    const struct cluster *cluster = cta->cluster;
    const struct launch *launch = cluster->launch;
    unfold(cta->rank, launch->cluster, cta->index);
    for (int i = 0; i < 3; i++) {
        cta->index[i] += cluster->index[i] * launch->cluster[i];
    }
    cta->dynamic_at = SHARED_RESERVED + launch->static_shared;
    cta->live_threads = cta->nthreads;
    cta->triggered = 0;
    cta->start_of_next = START_AT_END;
    cta->waited = false;
    memset(cta->registers, 0, sizeof cta->registers);
    memset(cta->shared, TRAP_PATTERN, cta->shared_bytes);
    memset(cta->bars, 0, sizeof cta->bars);
    for (int i = 0; i < NAMED_BARRIERS; i++) {
        cta->bars[i].all = true;
    }
    mbarriers_reset(cta->mbarriers);
    warpgroups_reset(cta->warpgroups, (cta->nwarps + 3) / 4);
    if (cta->shadow != NULL) {
        shadow_reset(cta->shadow);
    }
    if (cta->remote != NULL) {
        remote_reset(cta);
    }
    for (uint32_t i = 0; i < cta->nwarps; i++) {
        start_warp(&cta->warps[i]);
    }
}

void cluster_start(struct cluster *cluster, uint64_t number) {
    struct launch *launch = cluster->launch;
    const uint64_t checked = launch->sim->options.checked_ctas;
    cluster->number = number;
    cluster->checks = launch->checks && (checked == 0 || number * cluster->nctas < checked);
    if (launch->checks && !cluster->checks) {
        atomic_store(&launch->sim->unchecked_ctas, true);
    }
    unfold(number, launch->clusters, cluster->index);
    cluster->random = launch->seed * 0x9e3779b97f4a7c15u + number;
    cluster->failed = cluster->left = false;
    cluster->barrier_over = 0;
    cluster->idle = cluster->given_way = 0;
    cluster->gives_way = false;
    cluster->last_ran = NULL;
    cluster->events = 1;
    cluster->cluster_arrived = cluster->cluster_generation = 0;
    checks_reset(cluster);
    map_changes_reset(cluster);
    cluster->cluster_gathered = cluster->cluster_released = NULL;
    if (cluster->checks) {
        cluster->cluster_gathered = vclock_make(cluster);
        cluster->cluster_released = vclock_make(cluster);
    }
    for (uint32_t i = 0; i < cluster->nctas; i++) {
        start_cta(&cluster->ctas[i]);
    }
}
