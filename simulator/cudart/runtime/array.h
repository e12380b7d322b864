/* CUDA arrays: memory in rows of one pitch, since nothing here shows their layout. */
#ifndef SIM_CUDART_ARRAY_H
#define SIM_CUDART_ARRAY_H

#include "cudart/shim.h"

struct cudaArray {
    struct cudaChannelFormatDesc format;
    struct cudaExtent extent; /* as given: a height or depth of 0 is a missing dimension */
    unsigned flags;
    char *data;
    size_t pitch, slice_pitch;
};

/* Bytes of an element. */
size_t array_element(const struct cudaChannelFormatDesc *format);

#endif
