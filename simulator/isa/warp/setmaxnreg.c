/* setmaxnreg (PTX ISA, Miscellaneous): warpgroups return registers to their CTA's pool and take from it.
 *
 * The launch allocates the pool: as many registers per thread as ptxas chose for the kernel, for every thread
 * of the CTA. ptxas derives that number from .maxnreg, or from .minnctapersm and .maxntid or .reqntid. Without
 * them it ignores setmaxnreg (ptxas 13.0, message C7508), unless a command-line option sets the number; PTX
 * does not show such an option. */
#include <stdio.h>

#include "isa/opcodes.h"
#include "machine/machine.h"
#include "warp.h"

#define GROUP_WARPS 4
#define UNIT        8     /* granularity of registers per thread */
#define OF_QUARTER  16384 /* HW: registers of an SM's sub-partition, which has every fourth warp */
#define QUARTERS    4
#define MOST        256
#define LEAST       24 /* PTX ISA: fewest registers per thread of a warpgroup */

/* Registers per thread at launch; 0: the PTX does not determine them. */
static uint32_t at_launch(const struct function *kernel) {
    const uint32_t *bound = kernel->maxntid[0] != 0 ? kernel->maxntid : kernel->reqntid;
    if (kernel->maxnreg != 0) {
        uint32_t registers = (kernel->maxnreg + UNIT - 1) / UNIT * UNIT;
        return registers > MOST ? MOST : registers;
    }
    if (kernel->min_ctas == 0 || bound[0] == 0) {
        return 0;
    }
    uint64_t warps = ((uint64_t)bound[0] * bound[1] * bound[2] + LANES - 1) / LANES * kernel->min_ctas;
    uint64_t registers = OF_QUARTER / LANES / ((warps + QUARTERS - 1) / QUARTERS) / UNIT * UNIT;
    return registers > MOST ? MOST : (uint32_t)registers;
}

static uint32_t warps_of(const struct cta *cta, uint32_t group) {
    uint32_t left = cta->nwarps - group * GROUP_WARPS;
    return left < GROUP_WARPS ? left : GROUP_WARPS;
}

/* The registers of a CTA, as one warpgroup's request sees them. */
struct pool {
    uint32_t start, all; /* start: per thread at launch, 0: unknown; all: of the CTA */
    uint32_t others;     /* held by the other warpgroups that have not exited */
    uint32_t ended;      /* held by those that have exited */
    uint32_t least;      /* fewest that the other warpgroups could hold without exiting */
};

static struct pool pool_of(const struct cta *cta, uint32_t group) {
    const uint32_t start = at_launch(cta->cluster->launch->kernel);
    struct pool pool = {.start = start,
                        .all = start == 0 ? QUARTERS * OF_QUARTER : start * cta->nwarps * LANES};
    for (uint32_t i = 0; i * GROUP_WARPS < cta->nwarps; i++) {
        uint32_t threads = warps_of(cta, i) * LANES, has = cta->registers[i] != 0 ? cta->registers[i] : start;
        bool live = false;
        for (uint32_t j = 0; j < warps_of(cta, i); j++) {
            live |= cta->warps[i * GROUP_WARPS + j].live != 0;
        }
        if (i != group) {
            *(live ? &pool.others : &pool.ended) += has * threads;
            pool.least += !live ? 0 : (has < LEAST ? has : LEAST) * threads;
        }
    }
    return pool;
}

static bool registers_free(struct warp *warp, const struct split *split) {
    const uint32_t group = warp->index / GROUP_WARPS;
    const struct pool pool = pool_of(warp->cta, group);
    return split->wait.a * warps_of(warp->cta, group) * LANES + pool.others <= pool.all;
}

/* Writes into `text`: the registers that the warpgroup asks for, those that the CTA has, those that the other
 * warpgroups hold; then `end`. */
static void describe_request(const struct cta *cta, uint32_t group, uint32_t wanted, const char *end,
                             char *text, size_t room) {
    const struct pool pool = pool_of(cta, group);
    const uint32_t threads = warps_of(cta, group) * LANES;
    char launch[100] = "of an SM";
    if (pool.start != 0) {
        (void)snprintf(launch, sizeof launch, "of the launch, %u per thread", pool.start);
    }
    (void)snprintf(
        text, room,
        "setmaxnreg.inc asks for %u registers per thread (%u for %u threads) of the %u %s. The other "
        "warpgroups hold %u: %s",
        wanted, wanted * threads, threads, pool.all, launch, pool.others, end);
}

/* Reports a setmaxnreg.inc that still waits when no warp can run any more. */
static void hung(const struct warp *warp, const struct split *split) {
    const struct launch *launch = warp->cta->cluster->launch;
    char text[300];
    describe_request(warp->cta, warp->index / GROUP_WARPS, split->wait.a, "none of them releases enough", text,
                     sizeof text);
    sim_note(warp->cta->cluster->launch, SIM_ERROR, "setmaxnreg", warp->cta, (int)warp->index, -1,
             &launch->module->code[split->pc], NULL, "%s", text);
}

/* Every warp of the warpgroup has to execute it. */
static void count(struct warp *warp, const struct insn *insn) {
    warp->maxnreg = insn;
    warp->maxnregs++;
}

void registers_at_end(struct cluster *cluster, struct cta *cta) {
    for (uint32_t i = 0; i < cta->nwarps; i++) {
        const struct warp *first = &cta->warps[i / GROUP_WARPS * GROUP_WARPS], *warp = &cta->warps[i];
        if (warp->maxnregs != first->maxnregs) {
            const struct warp *more = warp->maxnregs > first->maxnregs ? warp : first;
            sim_note(cluster->launch, SIM_ERROR, "setmaxnreg", cta, (int)warp->index, -1, more->maxnreg, NULL,
                     "warp %u has executed setmaxnreg %u times and warp %u of its warpgroup %u times; all four "
                     "warps have to",
                     first->index, first->maxnregs, warp->index, warp->maxnregs);
            return;
        }
    }
}

static enum next exec_inc(struct run *run, const struct insn *insn, uint32_t mask) {
    (void)mask;
    const uint32_t group = run->warp->index / GROUP_WARPS, wanted = insn->control.registers;
    if (run->warp->index % GROUP_WARPS != 0) {
        count(run->warp, insn);
        return NEXT;
    }
    const struct pool pool = pool_of(run->cta, group);
    const uint32_t own = wanted * warps_of(run->cta, group) * LANES;
    char text[300];
    if (pool.start == 0) {
        atomic_store(&run->launch->sim->unjudged_registers, true);
    } else if (own + pool.least > pool.all) {
        describe_request(run->cta, group, wanted, "even if they release all that they can, it waits for ever",
                         text, sizeof text);
        return sim_report(run, SIM_ERROR, "setmaxnreg", -1, "%s", text);
    }
    if (own + pool.others > pool.all) {
        return wait_for(run, (struct wait){.kind = WAIT_ASYNC,
                                           .a = wanted,
                                           .ready = registers_free,
                                           .hung = hung,
                                           .what = "registers that other warpgroups have (setmaxnreg)"});
    }
    if (pool.start != 0 && own + pool.others + pool.ended > pool.all) {
        describe_request(run->cta, group, wanted,
                         "there is room only because other warpgroups have exited, and PTX does not say that "
                         "an exit releases registers",
                         text, sizeof text);
        (void)sim_report(run, SIM_REVIEW, "setmaxnreg", -1, "%s", text);
    }
    run->cta->registers[group] = wanted;
    run->cluster->events++;
    count(run->warp, insn);
    return NEXT;
}

static enum next exec_dec(struct run *run, const struct insn *insn, uint32_t mask) {
    (void)mask;
    count(run->warp, insn);
    if (run->warp->index % GROUP_WARPS == 0) {
        run->cta->registers[run->warp->index / GROUP_WARPS] = insn->control.registers;
        run->cluster->events++;
    }
    return NEXT;
}

void decode_setmaxnreg(struct decoder *d) {
    bool inc = mod(d, "inc");
    if ((!inc && !mod(d, "dec")) || !mod(d, "sync") || !mod(d, "aligned") || !mod(d, "u32")) {
        decode_fail(d, "expected setmaxnreg.{inc,dec}.sync.aligned.u32");
    }
    need_operands(d, 1, 1);
    int64_t registers = immediate(d, &d->op[0]);
    if (registers < LEAST || registers > MOST || registers % UNIT != 0) {
        decode_fail(d, "%lld registers; expected 24 to 256 in steps of 8", (long long)registers);
    }
    d->insn->control.registers = (uint16_t)registers;
    d->insn->aligned = 1;
    d->insn->fn = inc ? exec_inc : exec_dec;
}
