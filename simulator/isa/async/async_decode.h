/* What this family's decoders call of each other. */
#ifndef SIM_ISA_ASYNC_DECODE_H
#define SIM_ISA_ASYNC_DECODE_H

#include "isa/opcodes.h"

/* cp.async.bulk and cp.reduce.async.bulk, without and with a tensor map; the modifiers before have been taken.
 */
void decode_bulk(struct decoder *d, bool reduces);
void decode_bulk_tensor(struct decoder *d, bool reduces);
/* commit_group and wait_group of an enum group_family. */
void decode_group_insn(struct decoder *d, unsigned family, bool wait, bool all);
/* A reduction's modifier as an enum reduction. */
int decode_reduction(struct decoder *d);
/* What the copies with a tensor map do. */
enum next exec_tensor_load(struct run *run, const struct insn *insn, uint32_t mask);
enum next exec_tensor_store(struct run *run, const struct insn *insn, uint32_t mask);
enum next exec_tensor_prefetch(struct run *run, const struct insn *insn, uint32_t mask);
/* The first lane of each distinct set of operands: those that issue a store which is no reduction. */
uint32_t distinct_lanes(const struct run *run, const struct insn *insn, uint32_t mask);

#endif
