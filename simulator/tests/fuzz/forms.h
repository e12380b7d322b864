/* Kernels with one instruction each, whose operands come from memory. */
#ifndef FORMS_H
#define FORMS_H

#include <stddef.h>

#define FORM_OPERANDS 12
#define FORM_ROOM     (1 << 16)

size_t form_count(void);
/* Writes kernel `k` of form `which`. Its parameters are a pointer to data and a tensor map. The data has the
 * operands %r10 to %r21 as words and, from byte 64 on, %rd10 to %rd21 as double words; %r2 points to 16 KB of
 * shared memory, %r3 to an mbarrier and %r4 to a tensor map in shared memory, %r40 is an allocation in tensor
 * memory. */
void form_write(char *to, size_t room, size_t which);

#endif
