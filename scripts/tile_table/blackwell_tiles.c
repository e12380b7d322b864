#include <inttypes.h>
#include <stdio.h>

#include "../../submission/blackwell/blackwell_tile_selection.h"
#include "../../submission/blackwell/experts/blackwell_experts_selection.h"
#include "tile_table.h"

static void print_configs(const struct blackwell_config *configs, int count) {
    for (int i = 0; i < count; i++) {
        const struct blackwell_config *config = &configs[i];
        printf("      \"%s\": {\"tile_n\": %d, \"stages\": %d, \"ctas\": %d, \"tail\": %d, \"split_k\": %d, "
               "\"stored\": %d}%s\n",
               config->name, config->tile_n, config->stages, config->ctas, config->tail, config->split_k,
               config->stored, i + 1 < count ? "," : "");
    }
}

void print_blackwell_tiles(void) {
    printf("{\n    \"tiles\": {\n");
    print_configs(blackwell_configs, BLACKWELL_TILES);
    printf("    },\n    \"grouped_tiles\": {\n");
    print_configs(blackwell_grouped_configs, BLACKWELL_GROUPED_TILES);
    printf("    },\n    \"transposed_tiles\": {\n");
    print_configs(blackwell_transposed_configs, BLACKWELL_TRANSPOSED_TILES);
    printf("    },\n    \"few_rows_tiles\": {\n");
    print_configs(blackwell_few_rows_configs, BLACKWELL_FEW_ROWS_TILES);
    printf("    },\n    \"experts_tiles\": {\n");
    print_configs(blackwell_experts_tiles, BLACKWELL_EXPERTS_TILES_COUNT);
    printf("    },\n    \"resources\": {\n");
    for (int i = 0; i < BLACKWELL_TILES; i++) {
        const struct blackwell_config *config = &blackwell_configs[i];
        printf("      \"%s\": {\"threads\": %d, \"shared_bytes\": %d, \"tmem_columns\": %d}%s\n", config->name,
               CTA_THREADS, blackwell_shared_bytes(config), blackwell_tmem_columns(config),
               i + 1 < BLACKWELL_TILES ? "," : "");
    }
    printf("    }\n  }");
}

void print_blackwell_selection(const struct tile_question *question) {
    int64_t m = question->m, n = question->n, k = question->k, l = question->l;
    int clusters[BLACKWELL_TILES];
    for (int i = 0; i < BLACKWELL_TILES; i++) {
        clusters[i] = blackwell_clusters_at_once(&blackwell_configs[i], question->sms);
    }
    int selected = blackwell_select_tile(m, n, k, l, clusters);
    const struct blackwell_config *config = &blackwell_configs[selected];
    printf("{\"tile\": \"%s\", \"ctas\": %" PRId64 ", \"cost_ps\": %" PRId64 "}", config->name,
           blackwell_ctas(config, m, n, l), blackwell_tile_cost_ps(config, m, n, k, l, clusters[selected]));
}
