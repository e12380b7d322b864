/* Functions that the files of isa/async/ share. */
#ifndef SIM_ISA_ASYNC_DECODE_H
#define SIM_ISA_ASYNC_DECODE_H

#include "isa/opcodes.h"

/* cp.async.bulk and cp.reduce.async.bulk, without and with a tensor map; the words up to .bulk or .tensor have
 * been taken. */
void decode_bulk(struct decoder *d, bool reduces);
void decode_bulk_tensor(struct decoder *d, bool reduces);
/* commit_group, wait_group and wait_all; family: enum group_family.  False: it is none of these. */
bool decode_group_insn(struct decoder *d, unsigned family);
/* Copies with a tensor map (tma.c). */
exec_function exec_tensor_load, exec_tensor_store, exec_tensor_prefetch;
/* The first lane of each distinct set of operands: those that issue a store which is no reduction. */
uint32_t distinct_lanes(const struct run *run, const struct insn *insn, uint32_t mask);

#endif
