/* Fat binaries, as nvcc embeds them: a header, then an entry for each text or machine code. */
#ifndef SIM_CUDART_FATBIN_H
#define SIM_CUDART_FATBIN_H

#include <stdbool.h>
#include <stddef.h>

/* Of PTX text, that; of a fat binary, the PTX for a target of number `arch` (90, 121), else for one of its
 * compute capability's major number, else another chip's, unpacked where it is compressed: *unpacked is then to
 * be freed.  NULL: *why says what is the matter. */
const char *fatbin_ptx(const void *fatbin, unsigned arch, size_t *bytes, char **unpacked, const char **why);
/* Whether bytes begin as a fat binary does; how many it takes of them, 0 where it is none or not whole. */
bool fatbin_is(const void *fatbin, size_t bytes);
size_t fatbin_bytes(const void *fatbin, size_t bytes);
/* Whether there is PTX for a target between sm_FIRST and sm_LAST. */
bool fatbin_has_ptx(const void *fatbin, unsigned first, unsigned last);

#endif
