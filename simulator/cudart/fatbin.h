/* Fat binaries, as nvcc embeds them: a header, then an entry for each text or machine code. */
#ifndef SIM_CUDART_FATBIN_H
#define SIM_CUDART_FATBIN_H

#include <stddef.h>

/* Of PTX text, that; of a fat binary, the PTX for a chip of compute capability `major` (another chip's, where
 * there is none), unpacked where it is compressed: *unpacked is then to be freed.  NULL: *why says what is the
 * matter. */
const char *fatbin_ptx(const void *fatbin, int major, size_t *bytes, char **unpacked, const char **why);
/* A bit for each compute capability that there is PTX for: 1 << 9 for sm_90a. */
unsigned fatbin_majors(const void *fatbin);

#endif
