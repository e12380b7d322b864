/* The descriptors of gpu/tcgen05_descriptors.h, for tests.  For each line "ADDRESS M N" read: the descriptor of
 * a swizzled tile at ADDRESS, of a scale tile there, and of an M x N instruction (hexadecimal). */
#include <inttypes.h>
#include <stdio.h>

#include "../../../submission/gpu/tcgen05_descriptors.h"

int main(void) {
    uint32_t address, m, n;
    while (scanf("%" SCNu32 " %" SCNu32 " %" SCNu32, &address, &m, &n) == 3) {
        printf("%" PRIx64 " %" PRIx64 " %" PRIx32 "\n", swizzled_tile_descriptor(address),
               scale_tile_descriptor(address), nvfp4_instruction_descriptor(m, n));
    }
    return 0;
}
