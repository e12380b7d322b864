/* Prints what the Hopper back end chooses: a line "m n k l sms name ctas shared" for each "m n k l sms" read.
 */
#include <stdio.h>

#include "../../submission/hopper/plan.h"

int main(void) {
    long long m, n, k, l;
    int sms;
    while (scanf("%lld %lld %lld %lld %d", &m, &n, &k, &l, &sms) == 5) {
        const struct hopper_config *config =
            &hopper_configs[hopper_choose(m, n, (k + STAGE_K - 1) / STAGE_K, l, sms)];
        long long features = tile_features(config), tokens = config->tile_tokens;
        long long ctas = (n + features - 1) / features * ((m + tokens - 1) / tokens) * l * config->splits;
        printf("%lld %lld %lld %lld %d %s %lld %d\n", m, n, k, l, sms, config->name, ctas,
               shared_bytes(config));
    }
    return 0;
}
