/* The status that the CUDA runtime shim reports to `ptxsim run`: a file that all processes of the program map,
 * so that it survives a process that dies. */
#ifndef SIM_RUN_STATUS_H
#define SIM_RUN_STATUS_H

#include <stdatomic.h>

#include "sim.h"

#define RUN_RULES 1024 /* further suppressions are not counted one by one */

struct run_status {
    atomic_uint_fast64_t launches, unlisted, reports; /* reports: JSON files begun */
    atomic_uint_fast64_t times[SIM_INCOMPLETE + 1];   /* by verdict */
    atomic_uint_fast64_t hidden[RUN_RULES];           /* by suppression */
    atomic_bool unchecked[SIM_UNCHECKED];
    atomic_int signal;            /* that has ended the run; 0: none */
    struct sim_progress progress; /* of the process that simulated last */
};

/* A string in every program that is linked with the shim, by which `ptxsim run` recognises it. */
#define RUN_MARK "CUDA runtime of the PTX simulator"

#endif
