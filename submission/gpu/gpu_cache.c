#include "gpu_cache.h"

#include <string.h>

#define HASH_FACTOR UINT64_C(0x9E3779B97F4A7C15) /* 2^64 divided by the golden ratio (Knuth, vol. 3, 6.4) */

static size_t place_of(const struct cache_key *key) {
    const int64_t numbers[] = {key->m, key->n, key->k, key->l, key->sms, key->kind, key->of};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        hash = (hash ^ (uint64_t)numbers[i]) * HASH_FACTOR;
    }
    return (size_t)(hash >> 32) % CACHE_ENTRIES;
}

bool cache_find(const struct cache *cache, const struct cache_key *key, void *result, size_t bytes) {
    const size_t place = place_of(key);
    if (!cache->entries[place].known || memcmp(&cache->entries[place].key, key, sizeof *key) != 0) {
        return false;
    }
    memcpy(result, cache->entries[place].result, bytes);
    return true;
}

void cache_keep(struct cache *cache, const struct cache_key *key, const void *result, size_t bytes) {
    const size_t place = place_of(key);
    cache->entries[place].key = *key;
    memcpy(cache->entries[place].result, result, bytes);
    cache->entries[place].known = true;
}
