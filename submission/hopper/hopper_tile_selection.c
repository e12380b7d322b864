#include "hopper_tile_selection.h"

#include <stddef.h>

#include "../core/backend.h"

/* measured:H200.  Fitted to whole calls (shark_tank/data). */
const struct hopper_costs hopper_costs = {
    .product_ps = 61,
    .b_row_ps = 2250,
    .a_row_ps = 110,
    .b_row_at_least_ps = 5370,
    .a_row_at_least_ps = 26,
    .wave_ps = 3240000,
    .reduction_ps = 1230000,
    .turns_ps = 2900000,
    .call_ps = 2890000,
    .rest_ps = 2000000,
    .shares_call_ps = 7508000,
    .shares_b_row_ps = 3849,
    .shares_product_ps = 60,
    .sums_ps = 228,
    .part_ps = 50,
    .round_ps = 165,
};

enum { REST_GAIN_PERCENT = 3, REST_TRIED_WAVES = 2 };

const struct hopper_config hopper_configs[HOPPER_TILES] = {HOPPER_CONFIGS(GPU_TILE_ROW)};

int64_t hopper_ctas(const struct hopper_config *config, int64_t m, int64_t n, int64_t l) {
    return ceil_div(n, hopper_tile_n(config)) * ceil_div(m, config->tile_m) * l * config->split_k;
}

int64_t hopper_stage_ps(int64_t b_rows, int64_t a_rows) {
    const struct hopper_costs *costs = &hopper_costs;
    int64_t stage = b_rows * a_rows * costs->product_ps + b_rows * costs->b_row_ps + a_rows * costs->a_row_ps;
    int64_t at_least = b_rows * (costs->b_row_at_least_ps + a_rows * costs->a_row_at_least_ps);
    return stage > at_least ? stage : at_least;
}

struct hopper_shares hopper_share_tiles(int64_t tiles, int64_t stages_k, int sms) {
    const int64_t rounds = tiles / sms,
                  whole = tiles % sms == 0 ? tiles
                          : rounds > 1     ? (rounds - 1) * sms
                                           : 0,
                  units = (tiles - whole) * stages_k, ctas = whole == 0 && units < sms ? units : sms;
    return (struct hopper_shares){ctas, tiles - whole, ceil_div(units, ctas) + whole / sms * stages_k};
}

static int64_t shares_cost_ps(const struct hopper_config *config, int64_t tiles, int64_t stages_k, int sms) {
    const struct hopper_costs *costs = &hopper_costs;
    const struct hopper_shares shares = hopper_share_tiles(tiles, stages_k, sms);
    const int64_t b_rows = hopper_tile_n(config), a_rows = config->tile_m,
                  rounds = (tiles - shares.shared_tiles) / sms,
                  others = shares.shared_tiles == 0 ? 0 : ceil_div(shares.ctas, shares.shared_tiles) - 1,
                  sums = shares.shared_tiles == 0 ? 0 : costs->sums_ps + others * costs->part_ps;
    return costs->shares_call_ps +
           shares.stages * b_rows * (costs->shares_b_row_ps + a_rows * costs->shares_product_ps) +
           b_rows * a_rows * (sums + rounds * costs->round_ps);
}

int64_t hopper_tile_cost_ps(const struct hopper_config *config, int64_t m, int64_t n, int64_t k, int64_t l,
                            int sms) {
    const struct hopper_costs *costs = &hopper_costs;
    if (config->sharing == EQUAL_SHARES) {
        return shares_cost_ps(config, hopper_ctas(config, m, n, l), ceil_div(k, STAGE_K), sms);
    }
    int64_t stage = hopper_stage_ps(hopper_tile_n(config), config->tile_m);
    int64_t waves = ceil_div(hopper_ctas(config, m, n, l), CTAS_AT_ONCE(sms, config->split_k));
    int64_t stages_of_cta = ceil_div(ceil_div(k, STAGE_K), config->split_k);
    int64_t reductions =
        (config->split_k > 1 ? costs->reduction_ps : 0) + (config->warpgroups_k > 1 ? costs->turns_ps : 0);
    return costs->call_ps + waves * (stages_of_cta * stage + costs->wave_ps + reductions);
}

/* The cheapest of the tiles in `allowed`, bit i for tile i. */
static int cheapest_tile(uint32_t allowed, int64_t m, int64_t n, int64_t k, int64_t l, int sms) {
    int best = 0;
    int64_t best_cost = INT64_MAX, best_tile = 0;
    for (int i = 0; i < HOPPER_TILES; i++) {
        int64_t cost = hopper_tile_cost_ps(&hopper_configs[i], m, n, k, l, sms);
        int64_t tile = (int64_t)hopper_tile_n(&hopper_configs[i]) * hopper_configs[i].tile_m;
        if ((allowed >> i & 1) != 0 && (cost < best_cost || (cost == best_cost && tile > best_tile))) {
            best = i;
            best_cost = cost;
            best_tile = tile;
        }
    }
    return best;
}

/* Columns that `waves` whole waves of a configuration compute, in whole scale tiles; maybe 0. */
static int64_t columns_of_waves(const struct hopper_config *config, int64_t m, int64_t l, int64_t waves,
                                int sms) {
    int64_t tile_n = hopper_tile_n(config), per_column = ceil_div(m, config->tile_m) * l;
    int64_t granule = tile_n;
    while (granule % SCALE_TILE_ROWS != 0) {
        granule += tile_n;
    }
    return waves * sms / per_column * tile_n / granule * granule;
}

/* `tile` for all columns, or two tiles in `allowed` if these are faster. */
static struct hopper_choice with_rest(uint32_t allowed, int tile, int64_t m, int64_t n, int64_t k, int64_t l,
                                      int sms) {
    struct hopper_choice choice = {.tile = tile, .first_columns = n};
    const int64_t whole_ps = hopper_tile_cost_ps(&hopper_configs[choice.tile], m, n, k, l, sms);
    const int64_t launch_ps = hopper_costs.rest_ps - hopper_costs.call_ps;
    int64_t best_ps = whole_ps - whole_ps * REST_GAIN_PERCENT / 100;
    for (int i = 0; i < HOPPER_TILES; i++) {
        const struct hopper_config *config = &hopper_configs[i];
        int64_t all_waves = hopper_ctas(config, m, n, l) / sms;
        if (config->split_k > 1 || config->sharing == EQUAL_SHARES || (allowed >> i & 1) == 0) {
            /* split K is for less than a wave, and equal shares have no rest */
            continue;
        }
        for (int64_t waves = all_waves; waves > 0 && waves > all_waves - REST_TRIED_WAVES; waves--) {
            int64_t columns = columns_of_waves(config, m, l, waves, sms);
            if (columns == 0 || columns >= n) {
                continue;
            }
            int64_t first_ps = hopper_tile_cost_ps(config, m, columns, k, l, sms) + launch_ps;
            for (int j = 0; j < HOPPER_TILES && first_ps < best_ps; j++) {
                int64_t ps = first_ps + hopper_tile_cost_ps(&hopper_configs[j], m, n - columns, k, l, sms);
                if (ps < best_ps && (allowed >> j & 1) != 0 && hopper_configs[j].sharing != EQUAL_SHARES) {
                    choice = (struct hopper_choice){.tile = i, .first_columns = columns, .rest_tile = j};
                    best_ps = ps;
                }
            }
        }
    }
    return choice;
}

struct hopper_choice hopper_select_among(uint32_t allowed, bool a16, int64_t m, int64_t n, int64_t k, int64_t l,
                                         int sms, const struct hopper_narrow_room *room) {
    const int tile = cheapest_tile(allowed, m, n, k, l, sms);
    const int narrow = hopper_select_narrow_tile(a16, m, n, k, l, room,
                                                 hopper_tile_cost_ps(&hopper_configs[tile], m, n, k, l, sms));
    return narrow >= 0 ? (struct hopper_choice){.tile = HOPPER_TILES + narrow, .first_columns = n}
                       : with_rest(allowed, tile, m, n, k, l, sms);
}

struct hopper_choice hopper_select_tiles(int64_t m, int64_t n, int64_t k, int64_t l, int sms) {
    const struct hopper_narrow_room room = hopper_narrow_room_of(sms);
    return hopper_select_among((UINT32_C(1) << HOPPER_DUAL_TILES) - 1, false, m, n, k, l, sms, &room);
}

const char *hopper_tile_name(int index) {
    return index < HOPPER_TILES ? GPU_TILE_NAME(hopper_configs, index)
                                : GPU_TILE_NAME(hopper_narrow_configs, index - HOPPER_TILES);
}
