#include <inttypes.h>
#include <stdio.h>

#include "../../submission/geforce/experts/geforce_experts_selection.h"
#include "../../submission/geforce/geforce_tile_selection.h"
#include "tile_table.h"

static void print_configs(const struct geforce_config *configs, int count) {
    for (int i = 0; i < count; i++) {
        const struct geforce_config *config = &configs[i];
        printf("      \"%s\": {\"tile_m\": %d, \"tile_n\": %d, \"stages\": %d, \"warps_m\": %d, \"warps_n\": "
               "%d}%s\n",
               config->name, config->tile_m, config->tile_n, config->stages, config->warps_m, config->warps_n,
               i + 1 < count ? "," : "");
    }
}

void print_geforce_tiles(void) {
    printf("{\n    \"tiles\": {\n");
    print_configs(geforce_configs, GEFORCE_TILES);
    printf("    },\n    \"grouped_tiles\": {\n");
    print_configs(geforce_grouped_configs, GEFORCE_GROUPED_TILES);
    printf("    },\n    \"experts_tiles\": {\n");
    for (int i = 0; i < GEFORCE_EXPERTS_TILES_COUNT; i++) {
        const struct geforce_experts_tile *tile = &geforce_experts_tiles[i];
        printf("      \"%s\": {\"tile_m\": %d, \"stages\": %d, \"warps_m\": %d, \"warps_n\": %d}%s\n",
               tile->name, tile->tile_m, tile->stages, tile->warps_m, tile->warps_n,
               i + 1 < GEFORCE_EXPERTS_TILES_COUNT ? "," : "");
    }
    printf("    },\n    \"resources\": {\n");
    for (int i = 0; i < GEFORCE_TILES; i++) {
        const struct geforce_config *config = &geforce_configs[i];
        printf("      \"%s\": {\"threads\": %d, \"shared_bytes\": %d}%s\n", config->name,
               geforce_cta_threads(config), geforce_shared_bytes(config), i + 1 < GEFORCE_TILES ? "," : "");
    }
    printf("    }\n  }");
}

void print_geforce_selection(const struct tile_question *question) {
    int64_t m = question->m, n = question->n, k = question->k, l = question->l;
    const struct geforce_config *config = &geforce_configs[geforce_select_tile(m, n, k, l, question->sms)];
    int64_t tiles = geforce_tiles(config, m, n, l);
    printf("{\"tile\": \"%s\", \"ctas\": %" PRId64 ", \"cost_cycles\": %" PRId64 "}", config->name,
           tiles < question->sms ? tiles : question->sms, geforce_tile_cost(config, m, n, k, l, question->sms));
}
