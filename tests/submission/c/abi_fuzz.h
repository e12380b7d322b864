/* What both halves of the ABI's fuzz target share. */
#ifndef ABI_FUZZ_H
#define ABI_FUZZ_H

#include <stdbool.h>

#include "../../../submission/custom_kernel.h"
#include "../../simulator/fuzz/fuzz.h"

/* What outputs hold before a call. */
#define POISON 0xA5

/* What a call has got wrong ends the process. */
void fail(const char *what, int32_t status, const char *message);

/* Ends the process unless a valid call was accepted, and another refused in one line that begins with an
 * argument's name. */
void check_status(int32_t status, bool valid);

/* The same bits but for the payloads of NaN. */
bool same_halves(const unsigned char *a, const unsigned char *b, size_t bytes);

/* Whether the CPU backend's choice of instructions orders its sums otherwise than portable C: AMX. */
bool has_own_bits(void);

/* A call of custom_kernel_grouped(); -1 where there is no memory. */
int fuzz_grouped(struct choices *choices);

#endif
