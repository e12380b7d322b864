/* Execution of textures and surfaces, for their decoders. */
#ifndef SIM_ISA_TEXTURE_H
#define SIM_ISA_TEXTURE_H

#include "machine/machine.h"

enum outside { OUTSIDE_TRAP, OUTSIDE_CLAMP, OUTSIDE_ZERO }; /* insn->texture.outside */

/* op: results, handle, layer if layered, coordinates; a store's values come last. */
enum next exec_tex(struct run *run, const struct insn *insn, uint32_t mask);
enum next exec_tld4(struct run *run, const struct insn *insn, uint32_t mask);
enum next exec_texture_query(struct run *run, const struct insn *insn, uint32_t mask);
enum next exec_surface(struct run *run, const struct insn *insn, uint32_t mask);

#endif
