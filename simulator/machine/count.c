/* Sectors, wavefronts and bytes of memory accesses (count.h). */
#include "count.h"

#define SECTOR_SHIFT 5 /* HW: 32-byte sectors of L2 */
#define BANKS        32

void count_global(struct run *run, const uint64_t *addresses, uint32_t mask, uint32_t bytes, bool write) {
    struct sim_counters *counters = &run->worker->counters;
    if (run->worker->footprint != NULL) {
        memcpy(run->worker->footprint->address, addresses, LANES * sizeof *addresses);
        run->worker->footprint->mask = mask;
        run->worker->footprint->bytes = bytes;
    }
    uint64_t sectors = 0, last = UINT64_MAX, total = (uint64_t)__builtin_popcount(mask) * bytes;
    const bool in_a_row = mask == ALL_LANES && IN_A_ROW(uint64_t, addresses, bytes);
    if (in_a_row) {
        sectors = ((addresses[0] + total - 1) >> SECTOR_SHIFT) - (addresses[0] >> SECTOR_SHIFT) + 1;
    }
    /* Neighbouring lanes share a sector; a sector that a later lane returns to counts again. */
    FOR_LANES(rest, in_a_row ? 0 : mask) {
        uint64_t address = addresses[LANE(rest)], first = address >> SECTOR_SHIFT;
        uint64_t end = (address + bytes - 1) >> SECTOR_SHIFT;
        sectors += end - first + 1 - (first == last);
        last = end;
    }
    *(write ? &counters->global_store_bytes : &counters->global_load_bytes) += total;
    *(write ? &counters->global_store_sectors : &counters->global_load_sectors) += sectors;
}

/* HW: 32 banks of 4 bytes; 8-byte accesses go by half warps, 16-byte ones by quarters. */
void count_shared(struct run *run, const uint32_t *offsets, uint32_t mask, uint32_t bytes, bool write) {
    struct sim_counters *counters = &run->worker->counters;
    uint32_t words = bytes <= 4 ? 1 : bytes / 4, group = LANES / words;
    *(write ? &counters->shared_store_bytes : &counters->shared_load_bytes) +=
        (uint64_t)__builtin_popcount(mask) * bytes;
    uint32_t banks = 0;
    for (uint32_t l = 0; l < LANES; l++) {
        banks |= (mask >> l & 1) << offsets[l] / 4 % BANKS;
    }
    if (words == 1 ? __builtin_popcount(banks) == __builtin_popcount(mask)
                   : mask == ALL_LANES && IN_A_ROW(uint32_t, offsets, bytes)) { /* no bank conflict */
        counters->shared_wavefronts += words;
        counters->shared_ideal_wavefronts += words;
        return;
    }
    for (uint32_t first = 0; first < LANES; first += group) {
        uint32_t part = mask & (group == LANES ? ALL_LANES : ((1u << group) - 1) << first);
        if (part == 0) {
            continue;
        }
        uint32_t seen[BANKS], depth[BANKS], worst = 1, used = 0; /* used: banks that have an entry */
        FOR_LANES(rest, part) {
            for (uint32_t word = 0; word < words; word++) {
                uint32_t at = offsets[LANE(rest)] / 4 + word, bank = at % BANKS;
                if ((used >> bank & 1) == 0) {
                    used |= 1u << bank;
                    seen[bank] = at;
                    depth[bank] = 1;
                } else if (seen[bank] != at) { /* another word of this bank */
                    seen[bank] = at;
                    worst = ++depth[bank] > worst ? depth[bank] : worst;
                }
            }
        }
        counters->shared_wavefronts += worst;
        counters->shared_ideal_wavefronts++;
    }
}
