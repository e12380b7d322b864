/* Results of a cost model, kept by what they depend on: a model's caller asks for the same few shapes again and
 * again, and a result takes up to 2 us. */
#ifndef GPU_CACHE_H
#define GPU_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CACHE_ENTRIES = 64, CACHE_RESULT_BYTES = 40 };

/* All that a result depends on; members that do not matter are 0. */
struct cache_key {
    int64_t m, n, k, l, sms;
    int64_t kind, of; /* as the caller says */
};

/* One for each kind of result and thread, zeros at first. */
struct cache {
    struct {
        bool known;
        struct cache_key key;
        unsigned char result[CACHE_RESULT_BYTES];
    } entries[CACHE_ENTRIES];
};

/* Copies the result to *result, if it is kept. */
bool cache_find(const struct cache *cache, const struct cache_key *key, void *result, size_t bytes);
void cache_keep(struct cache *cache, const struct cache_key *key, const void *result, size_t bytes);

#endif
