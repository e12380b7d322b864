/* The PTX of a file: a program or an object of nvcc's, a fat binary, or the text itself. */
#ifndef SIM_CUDART_IMAGE_H
#define SIM_CUDART_IMAGE_H

#include <stddef.h>

#include "sim.h"

/* Number `index` of the fat binaries in a file's bytes (a text counts as one): its PTX for a target of number
 * `arch`, else as fatbin_ptx chooses.  NULL: *why says what is the matter; *count is how many there are.
 * *unpacked, where it is not NULL, is the caller's to give back to image_free.  The bytes end with a 0. */
SIM_API const char *image_ptx(const void *file, size_t file_bytes, size_t index, unsigned arch, size_t *count,
                              size_t *bytes, char **unpacked, const char **why);
SIM_API void image_free(char *unpacked);

#endif
