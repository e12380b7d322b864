/* The tile path for AVX2: compiled with its flags, called only on processors that have it. */
#define TILE_FUNCTION tc_tile_avx2
#include "tile_body.h"
