/* Kernels of one instruction each, whose operands come from memory. */
#ifndef FORMS_H
#define FORMS_H

#include <stddef.h>

#define FORM_OPERANDS 12
#define FORM_ROOM     (1 << 16)

size_t form_count(void);
/* Writes kernel `k` of form `which`: parameters are a pointer to data and a tensor map.  data holds the
 * operands %r10 to %r21 as words, and from byte 64 %rd10 to %rd21 as double words; %r2 is 16 KB of shared
 * memory, %r3 an mbarrier, %r4 a tensor map there, %r40 an allocation in tensor memory. */
void form_write(char *to, size_t room, size_t which);

#endif
