/* Shared by both halves of the ABI's fuzz target. */
#ifndef ABI_FUZZ_H
#define ABI_FUZZ_H

#include <stdbool.h>

#include "../../../simulator/tests/fuzz/fuzz.h"
#include "../../../submission/custom_kernel.h"

/* The bytes of an output before a call. */
#define POISON 0xA5

/* Prints what a call did wrong and aborts. */
void fail(const char *what, int32_t status, const char *message);

/* Aborts unless a valid call was accepted, or an invalid one was refused with a one-line message that begins
 * with an argument's name. */
void check_status(int32_t status, bool valid);

/* True if the fp16 values have the same bits, any NaN being equal to any other. */
bool same_halves(const unsigned char *a, const unsigned char *b, size_t bytes);

/* True if the CPU backend chooses AMX, whose sums have another order than portable C's. */
bool has_own_bits(void);

/* Fuzzes one call of custom_kernel_grouped(); -1 if memory runs out. */
int fuzz_grouped(struct choices *choices);

#endif
