#include "hopper_narrow_selection.h"

#include "../../core/backend.h"

/* measured:H200.  Fitted to time stamps in the kernel. */
const struct hopper_narrow_costs hopper_narrow_costs = {
    .step_ps = 190000,
    .a_block_ps = 60000,
    .phase_ps = 600000,
    .overlay_ps = 800000,
    .reduction_ps = 1100000,
    .reduction_cta_ps = 250000,
    .call_step_ps = 157000,
    .call_row_ps = 7100,
    .call_team_ps = 154000,
    .call_a16_ps = 30000,
    .call_ps = 4200000,
};

enum { SCHEDULERS = 4, HIDDEN_WARPS = 2 };
enum { MOST_ROWS = 128 }; /* of A, up to which narrow tiles are tried */

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

/* Places A's blocks, the rings and the partial sums in shared memory for phases of layout->phase_steps; false
 * if they do not fit. */
static bool place(const struct hopper_narrow_config *config, int together, int64_t steps,
                  struct hopper_narrow_layout *layout) {
    int blocks = config->tile_m / NARROW_A_ROWS, warps = layout->warps_n * layout->warps_k;
    int64_t resident = layout->phase_steps < steps ? 2 * layout->phase_steps : steps; /* steps */
    if ((layout->phase_steps < steps ? layout->phase_steps : steps) * blocks >
        (int64_t)config->a_units * warps) {
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
static bool place_longest(const struct hopper_narrow_config *config, int together, int64_t steps,
                          struct hopper_narrow_layout *layout) {
    int64_t turns = ceil_div(steps, layout->warps_k), most = (int64_t)config->a_units * layout->warps_n;
    for (turns = turns < most ? turns : most; turns > 0;
         turns--) { /* longer phases have more units of A than threads can hold */
        layout->phase_steps = (int32_t)(turns * layout->warps_k);
        if (place(config, together, steps, layout)) {
            return true;
        }
    }
    return false;
}

/* The fewest warps along the rows of B, in whole teams, that let all CTAs run at once, else as many as a CTA
 * may have; at least enough to dequantize a step of A in one turn. */
static int warps_along_n(const struct hopper_narrow_config *config, int64_t n, int64_t ctas_of_a_column) {
    int warps_n = (int)ceil_div(config->tile_m / NARROW_A_ROWS, config->a_units);
    warps_n = (int)round_up(warps_n, config->team);
    while (warps_n < NARROW_MAX_WARPS && tiles_n(config, n, warps_n) > ctas_of_a_column) {
        warps_n += config->team;
    }
    return warps_n;
}

/* The sum over the CTAs that share K. */
static int64_t reduction_ps(int split_k) {
    const struct hopper_narrow_costs *costs = &hopper_narrow_costs;
    return split_k == 1 ? 0 : costs->reduction_ps + (split_k - NARROW_PAIR) * costs->reduction_cta_ps;
}

static int64_t layout_ps(const struct hopper_narrow_config *config, const struct hopper_narrow_layout *layout,
                         int64_t steps) {
    const struct hopper_narrow_costs *costs = &hopper_narrow_costs;
    int64_t warps = ceil_div((int64_t)layout->warps_n * layout->warps_k, SCHEDULERS) + HIDDEN_WARPS;
    return ceil_div(steps, layout->warps_k) * warps * costs->step_ps +
           steps * (config->tile_m / NARROW_A_ROWS) * costs->a_block_ps +
           (ceil_div(steps, layout->phase_steps) - 1) * costs->phase_ps +
           (layout->sums_overlay ? costs->overlay_ps : 0) + reduction_ps(layout->split_k);
}

int64_t hopper_narrow_layout(const struct hopper_narrow_config *config, int64_t m, int64_t n, int64_t k,
                             int64_t l, int sms, struct hopper_narrow_layout *layout) {
    return hopper_narrow_layout_together(config, 1, m, n, k, l, sms, layout);
}

int64_t hopper_narrow_layout_together(const struct hopper_narrow_config *config, int together, int64_t m,
                                      int64_t n, int64_t k, int64_t l, int sms,
                                      struct hopper_narrow_layout *layout) {
    int64_t columns = ceil_div(m, config->tile_m) * l, best_ps = INT64_MAX;
    int best_warps = 0;
    for (int split_k = 1; split_k <= NARROW_MAX_SPLIT_K; split_k++) {
        int64_t steps = ceil_div(ceil_div(k, NARROW_STEP_K), split_k);
        int warps_n = warps_along_n(config, n, sms / split_k / columns);
        for (int warps_k = 1; warps_n * warps_k <= NARROW_MAX_WARPS; warps_k++) {
            struct hopper_narrow_layout tried = {.split_k = split_k,
                                                 .split_inverse = NARROW_INVERSE(split_k),
                                                 .warps_n = warps_n,
                                                 .warps_k = warps_k};
            if (!place_longest(config, together, steps, &tried)) {
                continue;
            }
            const int64_t ctas = hopper_narrow_ctas_along_n(config, &tried, n) * columns;
            if (split_k > NARROW_PAIR && ctas > SMS_OF_LARGE_CLUSTERS(sms)) {
                continue;
            }
            int64_t waves = ceil_div(ctas, CTAS_AT_ONCE(sms, split_k));
            int64_t ps = waves * layout_ps(config, &tried, steps);
            if (ps < best_ps || (ps == best_ps && warps_n * warps_k > best_warps)) {
                *layout = tried;
                best_ps = ps;
                best_warps = warps_n * warps_k;
            }
        }
    }
    return best_ps;
}

int64_t hopper_narrow_call_ps(const struct hopper_narrow_config *config, bool a16, int64_t m, int64_t n,
                              int64_t k, int64_t l, int sms) {
    const struct hopper_narrow_costs *costs = &hopper_narrow_costs;
    struct hopper_narrow_layout layout;
    (void)hopper_narrow_layout(config, m, n, k, l, sms, &layout);
    int64_t ctas = hopper_narrow_ctas_along_n(config, &layout, n) * ceil_div(m, config->tile_m) * l;
    int64_t waves = ceil_div(ctas, CTAS_AT_ONCE(sms, layout.split_k));
    int64_t warps = ceil_div((int64_t)layout.warps_n * layout.warps_k, SCHEDULERS) + HIDDEN_WARPS;
    int64_t steps = ceil_div(ceil_div(k, NARROW_STEP_K), layout.split_k);
    int64_t step_ps =
        config->team > 1 ? costs->call_team_ps : costs->call_step_ps + config->tile_m * costs->call_row_ps;
    int64_t a_ps = a16 ? steps * (config->tile_m / NARROW_A_ROWS) * costs->call_a16_ps : 0;
    return costs->call_ps + waves * (ceil_div(steps, layout.warps_k) * warps * step_ps + a_ps +
                                     (layout.split_k > 1 ? costs->reduction_ps : 0));
}

/* True if the tile of single warps is faster than `teams`, a tile of warpgroups with as many rows. */
static bool prefer_warps(const struct hopper_narrow_config *teams, const struct hopper_narrow_config *warps,
                         int64_t m, int64_t n, int64_t k, int64_t l, int sms) {
    struct hopper_narrow_layout of_teams, of_warps;
    (void)hopper_narrow_layout(teams, m, n, k, l, sms, &of_teams);
    (void)hopper_narrow_layout(warps, m, n, k, l, sms, &of_warps);
    return of_teams.warps_k == 1 ||
           hopper_narrow_ctas_along_n(teams, &of_teams, n) < hopper_narrow_ctas_along_n(warps, &of_warps, n);
}

int hopper_select_narrow_tile(bool a16, int64_t m, int64_t n, int64_t k, int64_t l, int sms, int64_t wide_ps) {
    const struct hopper_narrow_config *configs = hopper_narrow_configs;
    const int last = HOPPER_NARROW_TILES - 1;
    int tile = 0;
    while (tile < last && m > configs[tile].tile_m) {
        tile++;
    }
    if (tile == last) {
        const bool tried = m <= MOST_ROWS;
        return tried && hopper_narrow_call_ps(&configs[last], a16, m, n, k, l, sms) <= wide_ps ? last : -1;
    }
    bool two = configs[tile + 1].tile_m == configs[tile].tile_m;
    return two && prefer_warps(&configs[tile], &configs[tile + 1], m, n, k, l, sms) ? tile + 1 : tile;
}
