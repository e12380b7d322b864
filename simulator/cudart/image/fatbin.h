/* Fat binaries as nvcc embeds them: a header, then one entry for each PTX text or machine code. */
#ifndef SIM_CUDART_FATBIN_H
#define SIM_CUDART_FATBIN_H

#include <stdbool.h>
#include <stddef.h>

/* Returns PTX text as it is.  From a fat binary, returns the PTX for target number `arch` (90, 121), else for a
 * target with the same major number, else for any.  Compressed PTX is unpacked; *unpacked is then to be freed.
 * NULL: *why says what is wrong. */
const char *fatbin_ptx(const void *fatbin, unsigned arch, size_t *bytes, char **unpacked, const char **why);
/* True if the bytes begin like a fat binary.  fatbin_bytes: its size, 0 if it is none or is cut short. */
bool fatbin_is(const void *fatbin, size_t bytes);
size_t fatbin_bytes(const void *fatbin, size_t bytes);
/* True if it has PTX for a target between sm_FIRST and sm_LAST. */
bool fatbin_has_ptx(const void *fatbin, unsigned first, unsigned last);

#endif
