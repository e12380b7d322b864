/* What a CTA keeps for the tensor instructions goes with it; see simulator/VM_HOOKS.md. */
#include <stdlib.h>

#include "async.h"

void tensor_free(struct cta *cta) {
    free(cta->tensor);
    cta->tensor = NULL;
}
