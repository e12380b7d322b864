#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>

#include "../../submission/hopper/experts/hopper_experts_selection.h"
#include "../../submission/hopper/grouped/hopper_grouped_selection.h"
#include "../../submission/hopper/hopper_tile_selection.h"
#include "../../submission/hopper/narrow/hopper_narrow_selection.h"
#include "tile_table.h"

static bool is_extended(int tile) {
    return tile < HOPPER_COMMON_TILES || tile >= HOPPER_DUAL_TILES;
}

static void print_tiles(bool extended) {
    const char *separator = "";
    for (int i = 0; i < HOPPER_TILES; i++) {
        const struct hopper_config *config = &hopper_configs[i];
        if (extended ? is_extended(i) : i < HOPPER_DUAL_TILES) {
            printf("%s      \"%s\": {\"warpgroups_n\": %d, \"m_blocks\": %d, \"tile_m\": %d, \"stages\": %d, "
                   "\"split_k\": %d, \"warpgroups_k\": %d, \"persistent\": %d}",
                   separator, config->name, config->warpgroups_n, config->m_blocks, config->tile_m,
                   config->stages, config->split_k, config->warpgroups_k, config->sharing == TILE_AFTER_TILE);
            separator = ",\n";
        }
    }
}

void print_hopper_tiles(void) {
    printf("{\n    \"tiles\": {\n");
    print_tiles(false);
    printf("\n    },\n    \"extended_tiles\": {\n");
    print_tiles(true);
    printf("\n    },\n    \"narrow_tiles\": {\n");
    for (int i = 0; i < HOPPER_NARROW_TILES; i++) {
        const struct hopper_narrow_config *config = &hopper_narrow_configs[i];
        printf(
            "      \"%s\": {\"tile_m\": %d, \"stages\": %d, \"a_units\": %d, \"blocks\": %d, \"team\": %d}%s\n",
            config->name, config->tile_m, config->stages, config->a_units, config->blocks, config->team,
            i + 1 < HOPPER_NARROW_TILES ? "," : "");
    }
    printf("    },\n    \"grouped_tiles\": {\n");
    for (int i = 0; i < HOPPER_GROUPED_TILES_COUNT; i++) {
        const struct hopper_grouped_tile *tile = &hopper_grouped_tiles[i];
        printf("      \"%s\": {\"tile_m\": %d, \"stages\": %d}%s\n", tile->name, tile->tile_m, tile->stages,
               i + 1 < HOPPER_GROUPED_TILES_COUNT ? "," : "");
    }
    printf("    },\n    \"experts_tiles\": {\n");
    for (int i = 0; i < HOPPER_EXPERTS_TILES_COUNT; i++) {
        const struct hopper_experts_tile *tile = &hopper_experts_tiles[i];
        printf("      \"%s\": {\"tile_m\": %d, \"least_rows\": %d, \"m_blocks\": %d, \"stages\": %d, "
               "\"ctas_per_sm\": %d}%s\n",
               tile->name, tile->tile_m, tile->least_rows, tile->m_blocks, tile->stages, tile->ctas_per_sm,
               i + 1 < HOPPER_EXPERTS_TILES_COUNT ? "," : "");
    }
    printf("    },\n    \"resources\": {\n");
    for (int i = 0; i < HOPPER_DUAL_TILES; i++) {
        const struct hopper_config *config = &hopper_configs[i];
        printf("      \"%s\": {\"threads\": %d, \"shared_bytes\": %d}%s\n", config->name,
               hopper_cta_threads(config), hopper_shared_bytes(config), i + 1 < HOPPER_DUAL_TILES ? "," : "");
    }
    printf("    }\n  }");
}

static void print_narrow_selection(int tile, const struct tile_question *question) {
    const struct hopper_narrow_config *config = &hopper_narrow_configs[tile];
    int64_t m = question->m, n = question->n, l = question->l;
    const struct hopper_narrow_question asked = {m, n, question->k, l, CUSTOM_KERNEL_A_NVFP4, 1};
    const struct hopper_narrow_room room = hopper_narrow_room_of(question->sms);
    struct hopper_narrow_layout layout;
    int64_t ps = hopper_narrow_layout(tile, &asked, &room, &layout);
    int64_t ctas = hopper_narrow_ctas_along_n(config, &layout, n) * ((m - 1) / config->tile_m + 1) * l;
    printf("{\"tile\": \"%s\", \"ctas\": %" PRId64 ", \"cost_ps\": %" PRId64
           ", \"split_k\": %d, \"warps_n\": %d, \"warps_k\": %d, \"phase_steps\": %d, \"sums_overlay\": %d, "
           "\"shared_bytes\": %d}",
           config->name, ctas, ps, layout.split_k, layout.warps_n, layout.warps_k, layout.phase_steps,
           layout.sums_overlay, layout.shared_bytes);
}

void print_hopper_selection(const struct tile_question *question) {
    int64_t m = question->m, n = question->n, k = question->k, l = question->l;
    int sms = question->sms;
    struct hopper_choice choice = hopper_select_tiles(m, n, k, l, sms);
    if (choice.tile >= HOPPER_TILES) {
        print_narrow_selection(choice.tile - HOPPER_TILES, question);
        return;
    }
    const struct hopper_config *first = &hopper_configs[choice.tile];
    int64_t columns = choice.first_columns, ctas = hopper_ctas(first, m, columns, l);
    int64_t ps = hopper_tile_cost_ps(first, m, columns, k, l, sms);
    const char *rest_tile = "";
    if (columns < n) {
        const struct hopper_config *rest = &hopper_configs[choice.rest_tile];
        ctas += hopper_ctas(rest, m, n - columns, l);
        ps +=
            hopper_costs.rest_ps - hopper_costs.call_ps + hopper_tile_cost_ps(rest, m, n - columns, k, l, sms);
        rest_tile = rest->name;
    }
    printf("{\"tile\": \"%s\", \"ctas\": %" PRId64 ", \"cost_ps\": %" PRId64 ", \"first_columns\": %" PRId64
           ", \"rest_tile\": \"%s\"}",
           first->name, ctas, ps, columns, rest_tile);
}
