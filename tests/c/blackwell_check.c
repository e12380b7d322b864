/* What the Blackwell back end computes on the host, for tests.  For each line read:
 *   plan M N K L SMS   ->  name, CTAs, bytes of shared memory, columns of tensor memory
 *   descriptors ADDRESS M N  ->  of a swizzled tile, of a scale tile, of the instruction (hexadecimal) */
#include <stdio.h>
#include <string.h>

#include "../../submission/blackwell/plan.h"
#include "../../submission/gpu/tcgen05_descriptors.h"

int main(void) {
    char word[16];
    while (scanf("%15s", word) == 1) {
        long long m, n, k, l;
        unsigned address, rows, columns;
        int sms;
        if (strcmp(word, "plan") == 0 && scanf("%lld %lld %lld %lld %d", &m, &n, &k, &l, &sms) == 5) {
            int clusters[32] = {0};
            for (int i = 0; i < blackwell_config_count; i++) {
                clusters[i] = blackwell_clusters_at_once(&blackwell_configs[i], sms);
            }
            const struct blackwell_config *config = &blackwell_configs[blackwell_choose(m, n, k, l, clusters)];
            printf("%s %lld %d %d\n", config->name, (long long)blackwell_ctas(config, m, n, l),
                   shared_bytes(config), tensor_columns(config));
        } else if (strcmp(word, "descriptors") == 0 && scanf("%u %u %u", &address, &rows, &columns) == 3) {
            printf("%llx %llx %x\n", (unsigned long long)swizzled_tile_descriptor(address),
                   (unsigned long long)scale_tile_descriptor(address),
                   nvfp4_instruction_descriptor(rows, columns));
        } else {
            return 1;
        }
    }
    return 0;
}
