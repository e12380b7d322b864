/* The state of the checks of a cluster: its vector clocks, flags and notes about other clusters. */
#include "hazard.h"
#include "releases.h"

void checks_reset(struct cluster *cluster) {
    vclocks_reset(cluster);
    locations_reset(cluster);
    heard_reset(cluster->heard);
}

void checks_free(struct cluster *cluster) {
    vclocks_free(cluster);
    locations_free(cluster->sync);
    heard_free(cluster->heard);
}
