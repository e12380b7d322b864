/* The PTX of a file: a program or object made by nvcc, a fat binary, or PTX text. */
#ifndef SIM_CUDART_IMAGE_H
#define SIM_CUDART_IMAGE_H

#include <stddef.h>

#include "sim.h"

/* The PTX of fat binary number `index` of a file (a text counts as one), chosen for target number `arch` as in
 * fatbin_ptx.  *count: how many there are.  NULL: *why says what is wrong.  If *unpacked is not NULL, pass it
 * to image_free afterwards.  The bytes of the file end with a 0. */
SIM_API const char *image_ptx(const void *file, size_t file_bytes, size_t index, unsigned arch, size_t *count,
                              size_t *bytes, char **unpacked, const char **why);
SIM_API void image_free(char *unpacked);

#endif
