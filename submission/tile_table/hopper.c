#include <inttypes.h>
#include <stdio.h>

#include "../hopper/tile_selection.h"
#include "tile_table.h"

void print_hopper_tiles(void) {
    const struct hopper_costs *costs = &hopper_costs;
    printf("{\n    \"tiles\": {\n");
    for (int i = 0; i < HOPPER_TILES; i++) {
        const struct hopper_config *config = &hopper_configs[i];
        printf("      \"%s\": {\"warpgroups\": %d, \"m_blocks\": %d, \"tile_m\": %d, \"stages\": %d, "
               "\"split_k\": %d}%s\n",
               config->name, config->warpgroups, config->m_blocks, config->tile_m, config->stages,
               config->split_k, i + 1 < HOPPER_TILES ? "," : "");
    }
    printf("    },\n    \"resources\": {\n");
    for (int i = 0; i < HOPPER_TILES; i++) {
        const struct hopper_config *config = &hopper_configs[i];
        printf("      \"%s\": {\"threads\": %d, \"shared_bytes\": %d}%s\n", config->name,
               hopper_cta_threads(config), hopper_shared_bytes(config), i + 1 < HOPPER_TILES ? "," : "");
    }
    printf("    },\n    \"costs\": {\"product_ps\": %" PRId64 ", \"b_row_ps\": %" PRId64
           ", \"a_row_ps\": %" PRId64 ", \"b_row_at_least_ps\": %" PRId64 ", \"reduction_ps\": %" PRId64
           "}\n  }",
           costs->product_ps, costs->b_row_ps, costs->a_row_ps, costs->b_row_at_least_ps, costs->reduction_ps);
}

void print_hopper_selection(const struct tile_question *question) {
    int64_t m = question->m, n = question->n, k = question->k, l = question->l;
    const struct hopper_config *config = &hopper_configs[hopper_select_tile(m, n, k, l, question->sms)];
    printf("{\"tile\": \"%s\", \"ctas\": %" PRId64 ", \"cost_ps\": %" PRId64 "}", config->name,
           hopper_ctas(config, m, n, l), hopper_tile_cost_ps(config, m, n, k, l, question->sms));
}
