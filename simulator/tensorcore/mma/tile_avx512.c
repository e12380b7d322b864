/* The tile path for AVX-512 VNNI: compiled with its flags, called only on processors that have it. */
#define TILE_FUNCTION tc_tile_avx512
#include "tile_body.h"
