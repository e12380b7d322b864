/* Where the compiler is to keep a value. */
#ifndef GPU_REGISTERS_CUH
#define GPU_REGISTERS_CUH

#include "ptx.cuh"

/* No instruction: makes an address a value of unknown origin, which the compiler keeps instead of computing it
 * again at each use. */
PTX void keep_address(const uint8_t *&address) {
    asm volatile("" : "+l"(address));
}

#endif
