/* The opcode table for ptx_parse, and the names of the counter classes. */
#include "opcodes.h"
#include "sim.h"

const struct opcode isa_opcodes[] = {
#define X(name, function, cls) {#name, decode_##function, CL_##cls},
    OPCODES(X)
#undef X
        {NULL, NULL, 0},
};

static const char *const class_names[CL_CLASSES] = {
    [CL_INT] = "integer",
    [CL_FLOAT] = "float",
    [CL_CVT] = "convert",
    [CL_MOVE] = "move",
    [CL_MEM_GLOBAL] = "global memory",
    [CL_MEM_SHARED] = "shared memory",
    [CL_MEM_OTHER] = "other memory",
    [CL_ATOM] = "atomic",
    [CL_WARP] = "warp",
    [CL_CONTROL] = "control",
    [CL_BARRIER] = "barrier",
    [CL_MBARRIER] = "mbarrier",
    [CL_ASYNC_COPY] = "async copy",
    [CL_TENSOR] = "tensor",
    [CL_FENCE] = "fence",
};

const char *sim_class_name(int index) {
    return index >= 0 && index < CL_CLASSES ? class_names[index] : NULL;
}
