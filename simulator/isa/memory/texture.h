/* Execution of textures and surfaces, for their decoders. */
#ifndef SIM_ISA_TEXTURE_H
#define SIM_ISA_TEXTURE_H

#include "machine/machine.h"

enum texture_operation { TEXTURE_FETCH, TEXTURE_GATHER, TEXTURE_QUERY, TEXTURE_SURFACE };
enum outside { OUTSIDE_TRAP, OUTSIDE_CLAMP, OUTSIDE_ZERO }; /* insn->texture.outside */

/* op: results, handle, layer if layered, coordinates; a store's values come last. */
exec_function exec_texture;

#endif
