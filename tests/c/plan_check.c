/* Prints what the Hopper back end chooses: a line "m n l sms name ctas" for each "m n l sms" read. */
#include <stdio.h>

#include "../../submission/hopper/plan.h"

int main(void) {
    long long m, n, l;
    int sms;
    while (scanf("%lld %lld %lld %d", &m, &n, &l, &sms) == 4) {
        const struct hopper_config *config = &hopper_configs[hopper_choose(m, n, l, sms)];
        long long features = tile_features(config), tokens = config->tile_tokens;
        long long ctas = (n + features - 1) / features * ((m + tokens - 1) / tokens) * l;
        printf("%lld %lld %lld %d %s %lld %d\n", m, n, l, sms, config->name, ctas, shared_bytes(config));
    }
    return 0;
}
