#include "hopper_narrow_selection.h"

#include "../../core/backend.h"

/* The predicted times behind the choice, in picoseconds: a row for each tile, all fitted to whole calls. */
struct narrow_costs {
    int64_t call_ps;    /* everything else */
    int64_t split_ps;   /* partial sums from other CTAs, and the start of a cluster */
    int64_t phase_ps;   /* another phase of A: a wait for its bytes, and for all warps */
    int64_t overlay_ps; /* a wait for the cluster, before partial sums overwrite what they read */
    int64_t turn_ps;    /* a step of a warp: latency that no other warp hides */
    int64_t step_ps;    /* a step of the scheduler that has the most */
    int64_t fourth_ps;  /* a fourth warp of a scheduler */
    int64_t weights_ps; /* the weights of a step, for each warp along N */
    int64_t a16_ps;     /* what a block of A of 16 bits adds to a CTA's step */
};

/* measured:H200.  Fitted to calls in a CUDA graph with each layout forced, in the order of the members and of
 * HOPPER_NARROW_CONFIGS (shark_tank/data/h200_narrow_layouts.json).  m32's are 5 % more: the fit is low where K
 * is large, and there wide tiles may be faster. */
static const struct narrow_costs narrow_costs[HOPPER_NARROW_TILES] = {
    {3658000, 106000, 448000, 496000, 179000, 166000, 249000, 23000, 12000}, /* m8 */
    {3304000, 196000, 165000, 376000, 261000, 109000, 290000, 1000, 51000},  /* m16 */
    {4102000, 147000, 692000, 374000, 126000, 185000, 485000, 38000, 37000}, /* m16warps */
    {4332000, 0, 548000, 700000, 361000, 110000, 636000, 5000, 38000},       /* m32 */
};

enum { SCHEDULERS = 4, FULL_SCHEDULER = 4 /* warps */ };

const struct hopper_narrow_config hopper_narrow_configs[HOPPER_NARROW_TILES] = {
    HOPPER_NARROW_CONFIGS(GPU_TILE_ROW)};

/* Tiles along the rows of B, whose number counts as padded to whole scale tiles. */
static int64_t tiles_n(const struct hopper_narrow_config *config, int64_t n, int warps_n) {
    return ceil_div(scale_tile_rows(n) * (SCALE_TILE_ROWS / (config->blocks * NARROW_BLOCK_B_ROWS)), warps_n);
}

int64_t hopper_narrow_ctas_along_n(const struct hopper_narrow_config *config,
                                   const struct hopper_narrow_layout *layout, int64_t n) {
    return tiles_n(config, n, layout->warps_n) * layout->split_k;
}

/* Units of A that a thread holds. */
static int a_units_of(const struct hopper_narrow_config *config,
                      const struct hopper_narrow_question *question) {
    return NARROW_A_UNITS(question->a_type, config->a_units);
}

/* Places A's blocks, the rings and the partial sums in shared memory for phases of layout->phase_steps; false
 * if they do not fit. */
static bool place(const struct hopper_narrow_config *config, const struct hopper_narrow_question *question,
                  int64_t steps, struct hopper_narrow_layout *layout) {
    const int a_units = a_units_of(config, question), together = question->together;
    int blocks = config->tile_m / NARROW_A_ROWS, warps = layout->warps_n * layout->warps_k;
    int64_t resident = layout->phase_steps < steps ? 2 * layout->phase_steps : steps; /* steps */
    if ((layout->phase_steps < steps ? layout->phase_steps : steps) * blocks > (int64_t)a_units * warps) {
        return false;
    }
    int64_t a_bytes = resident * blocks * NARROW_A_BLOCK_BYTES;
    int64_t ring_bytes = (int64_t)warps * config->stages * NARROW_STAGE_BYTES(config->blocks);
    int vectors = layout->warps_n * config->blocks * blocks;
    int64_t sums_bytes = ceil_div(vectors / together, layout->split_k) * together * layout->split_k *
                         layout->warps_k * NARROW_VECTOR_BYTES;
    int64_t sums_offset = NARROW_A_OFFSET + a_bytes + ring_bytes, bytes = sums_offset + sums_bytes;
    layout->sums_overlay = bytes > MAX_SHARED_BYTES;
    if (layout->sums_overlay) {
        sums_offset = NARROW_A_OFFSET;
        bytes = NARROW_A_OFFSET + (a_bytes + ring_bytes > sums_bytes ? a_bytes + ring_bytes : sums_bytes);
    }
    if (bytes > MAX_SHARED_BYTES) {
        return false;
    }
    layout->ring_offset = (int32_t)(NARROW_A_OFFSET + a_bytes);
    layout->sums_offset = (int32_t)sums_offset;
    layout->shared_bytes = (int32_t)bytes;
    return true;
}

/* Places the longest phases that fit; false if none does. */
static bool place_longest(const struct hopper_narrow_config *config,
                          const struct hopper_narrow_question *question, int64_t steps,
                          struct hopper_narrow_layout *layout) {
    const int64_t most = (int64_t)a_units_of(config, question) * layout->warps_n;
    int64_t turns = ceil_div(steps, layout->warps_k);
    for (turns = turns < most ? turns : most; turns > 0;
         turns--) { /* longer phases have more units of A than threads can hold */
        layout->phase_steps = (int32_t)(turns * layout->warps_k);
        if (place(config, question, steps, layout)) {
            return true;
        }
    }
    return false;
}

/* The fewest warps along the rows of B, in whole teams, that let all CTAs run at once, else as many as a CTA
 * may have; at least enough to dequantize a step of A in one turn. */
static int warps_along_n(const struct hopper_narrow_config *config,
                         const struct hopper_narrow_question *question, int64_t ctas_of_a_column) {
    const int64_t warps = ceil_div(config->tile_m / NARROW_A_ROWS, a_units_of(config, question));
    int warps_n = (int)round_up(warps, config->team);
    while (warps_n < NARROW_MAX_WARPS && tiles_n(config, question->n, warps_n) > ctas_of_a_column) {
        warps_n += config->team;
    }
    return warps_n;
}

/* The steps of the scheduler that has the most. */
static int64_t most_steps(const struct hopper_narrow_layout *layout, int64_t steps) {
    int64_t of[SCHEDULERS] = {0}, most = 0;
    for (int warp = 0; warp < layout->warps_n * layout->warps_k; warp++) {
        const int warp_k = warp / layout->warps_n;
        int64_t *all = &of[warp % SCHEDULERS];
        *all += steps > warp_k ? ceil_div(steps - warp_k, layout->warps_k) : 0;
        most = *all > most ? *all : most;
    }
    return most;
}

static int64_t wave_ps(int tile, bool a16, const struct hopper_narrow_layout *layout, int64_t steps) {
    const struct narrow_costs *costs = &narrow_costs[tile];
    const int a_blocks = hopper_narrow_configs[tile].tile_m / NARROW_A_ROWS;
    const bool full = layout->warps_n * layout->warps_k > SCHEDULERS * (FULL_SCHEDULER - 1);
    return (layout->split_k > 1 ? costs->split_ps : 0) +
           (ceil_div(steps, layout->phase_steps) - 1) * costs->phase_ps +
           (layout->sums_overlay ? costs->overlay_ps : 0) + ceil_div(steps, layout->warps_k) * costs->turn_ps +
           most_steps(layout, steps) * costs->step_ps + (full ? costs->fourth_ps : 0) +
           steps * layout->warps_n * costs->weights_ps + (a16 ? steps * a_blocks * costs->a16_ps : 0);
}

struct hopper_narrow_room hopper_narrow_room_of(int sms) {
    struct hopper_narrow_room room = {0};
    for (int split_k = 1; split_k <= NARROW_MAX_SPLIT_K; split_k++) {
        room.ctas[split_k] = split_k > NARROW_PAIR ? SMS_OF_LARGE_CLUSTERS(sms) / split_k * split_k
                                                   : (int)CTAS_AT_ONCE(sms, split_k);
    }
    return room;
}

int64_t hopper_narrow_layout(int tile, const struct hopper_narrow_question *question,
                             const struct hopper_narrow_room *room, struct hopper_narrow_layout *layout) {
    const struct hopper_narrow_config *config = &hopper_narrow_configs[tile];
    const int64_t columns = ceil_div(question->m, config->tile_m) * question->l;
    const bool a16 = question->a_type != CUSTOM_KERNEL_A_NVFP4;
    int64_t best_ps = INT64_MAX;
    int best_warps = 0;
    for (int split_k = 1; split_k <= NARROW_MAX_SPLIT_K; split_k++) {
        if (room->ctas[split_k] == 0) {
            continue; /* no cluster of so many CTAs fits */
        }
        const int64_t steps = ceil_div(ceil_div(question->k, NARROW_STEP_K), split_k);
        const int warps_n = warps_along_n(config, question, room->ctas[split_k] / split_k / columns);
        for (int warps_k = 1; warps_n * warps_k <= NARROW_MAX_WARPS; warps_k++) {
            struct hopper_narrow_layout tried = {.split_k = split_k,
                                                 .split_inverse = NARROW_INVERSE(split_k),
                                                 .warps_n = warps_n,
                                                 .warps_k = warps_k};
            if (!place_longest(config, question, steps, &tried)) {
                continue;
            }
            const int64_t ctas = hopper_narrow_ctas_along_n(config, &tried, question->n) * columns,
                          waves = ceil_div(ctas, room->ctas[split_k]);
            if (split_k > NARROW_PAIR && waves > 1) {
                continue;
            }
            const int64_t ps = narrow_costs[tile].call_ps + waves * wave_ps(tile, a16, &tried, steps);
            if (ps < best_ps || (ps == best_ps && warps_n * warps_k > best_warps)) {
                *layout = tried;
                best_ps = ps;
                best_warps = warps_n * warps_k;
            }
        }
    }
    return best_ps;
}

int64_t hopper_narrow_call_ps(int tile, bool a16, int64_t m, int64_t n, int64_t k, int64_t l,
                              const struct hopper_narrow_room *room) {
    const struct hopper_narrow_question question = {
        m, n, k, l, a16 ? CUSTOM_KERNEL_A_BF16 : CUSTOM_KERNEL_A_NVFP4, 1};
    struct hopper_narrow_layout layout;
    return hopper_narrow_layout(tile, &question, room, &layout);
}

int hopper_select_narrow_tile(bool a16, int64_t m, int64_t n, int64_t k, int64_t l,
                              const struct hopper_narrow_room *room, int64_t wide_ps) {
    const struct hopper_narrow_config *configs = hopper_narrow_configs;
    const int last = HOPPER_NARROW_TILES - 1;
    int tile = 0;
    while (tile < last && m > configs[tile].tile_m) {
        tile++;
    }
    if (tile == last) {
        const bool tried = m <= NARROW_MOST_ROWS;
        return tried && hopper_narrow_call_ps(last, a16, m, n, k, l, room) <= wide_ps ? last : -1;
    }
    const bool two = configs[tile + 1].tile_m == configs[tile].tile_m;
    return two && hopper_narrow_call_ps(tile + 1, a16, m, n, k, l, room) <
                       hopper_narrow_call_ps(tile, a16, m, n, k, l, room)
               ? tile + 1
               : tile;
}
