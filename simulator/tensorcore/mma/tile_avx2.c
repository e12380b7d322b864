/* The tile path with AVX2; compiled with its flags, called only where the processor has it. */
#define TILE_FUNCTION tc_tile_avx2
#include "tile_body.h"
