/* Tells an endless poll from one that gives up in the end: a warp that comes back to a state of its own, while
 * memory stays as it is, goes round for ever; one that counts rounds or reads a clock does not come back. */
#include "interp/interp.h"

static uint64_t mix(uint64_t hash, uint64_t value) {
    const uint64_t golden = 0x9e3779b97f4a7c15u; /* Knuth's multiplicative hash */
    hash = (hash ^ value) * golden;
    return hash ^ hash >> 32;
}

static uint64_t mix_words(uint64_t hash, const uint8_t *bytes, size_t count) {
    uint32_t word;
    for (size_t at = 0; at < count; at += sizeof word) {
        memcpy(&word, bytes + at, sizeof word);
        hash = mix(hash, word);
    }
    return hash;
}

/* A hash of all that decides what the warp does next, but for shared and global memory. */
static uint64_t state_of(const struct warp *warp) {
    const struct launch *launch = warp->cta->cluster->launch;
    uint64_t hash = mix_words(warp->live, warp->regs, launch->reg_bytes);
    hash = mix_words(hash, warp->preds, launch->pred_bytes);
    hash = mix_words(hash, warp->local, (size_t)launch->local_bytes * LANES);
    for (uint32_t i = 0; i < warp->nsplits; i++) {
        const struct split *split = warp->splits[i];
        hash = mix(hash, (uint64_t)split->mask << 32 | split->pc);
        hash = mix(hash, (uint64_t)split->failed_try << 32 | split->depth << 1 | split->resumed);
        hash = mix(hash, (uint64_t)split->wait.kind << 32 | (warp->nsplits > 1 ? split->steps : 0));
        for (uint32_t call = 0; call < split->depth; call++) {
            hash = mix(hash, split->stack[call].return_pc);
        }
    }
    return hash;
}

bool polls_change(struct cluster *cluster) {
    const uint32_t number = ++cluster->compared;
    const bool keep = (number & (number - 1)) == 0; /* Brent: in the end longer ago than a loop's period */
    bool change = false;
    for (uint32_t i = 0; i < cluster->nctas; i++) {
        for (uint32_t j = 0; j < cluster->ctas[i].nwarps; j++) {
            struct warp *warp = &cluster->ctas[i].warps[j];
            if (warp->nsplits == 0 || (number > 1 && warp->repeats)) {
                continue;
            }
            const uint64_t state = state_of(warp);
            warp->repeats = number > 1 && state == warp->state;
            warp->state = keep ? state : warp->state;
            change |= !warp->repeats;
        }
    }
    return change;
}
