/* What `ptxsim run` is told by the CUDA runtime shim in the processes that it runs: a file that all of them
 * map, so that it holds what there was when a process dies. */
#ifndef SIM_RUN_STATUS_H
#define SIM_RUN_STATUS_H

#include <stdatomic.h>

#include "sim.h"

#define RUN_RULES 1024 /* suppressions beyond are not counted one by one */

struct run_status {
    atomic_uint_fast64_t launches, unlisted, reports; /* reports: of the JSON files, begun */
    atomic_uint_fast64_t times[SIM_INCOMPLETE + 1];   /* by verdict */
    atomic_uint_fast64_t hidden[RUN_RULES];           /* by suppression */
    atomic_bool unchecked[SIM_UNCHECKED];
};

/* In every program that the shim is linked with. */
#define RUN_MARK "CUDA runtime of the PTX simulator"

#endif
