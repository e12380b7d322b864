/* The tile path with AVX-512 VNNI; compiled with its flags, called only where the processor has it. */
#define TILE_FUNCTION tc_tile_avx512
#include "tile_body.h"
