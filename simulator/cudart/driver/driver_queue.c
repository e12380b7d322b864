/* The driver's queues (streams) and events: the runtime's under other names. */
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "cudart/shim.h"
#include "driver.h"

SAME_AS_RUNTIME(cuStreamCreate, (CUstream * queue, unsigned flags), cudaStreamCreateWithFlags(queue, flags))
SAME_AS_RUNTIME(cuStreamCreateWithPriority, (CUstream * queue, unsigned flags, int priority),
                cudaStreamCreateWithPriority(queue, flags, priority))
SAME_AS_RUNTIME(cuStreamDestroy, (CUstream queue), cudaStreamDestroy(queue))
SAME_AS_RUNTIME(cuStreamSynchronize, (CUstream queue), cudaStreamSynchronize(queue))
SAME_AS_RUNTIME(cuStreamQuery, (CUstream queue), cudaStreamQuery(queue))
SAME_AS_RUNTIME(cuStreamWaitEvent, (CUstream queue, CUevent event, unsigned flags),
                cudaStreamWaitEvent(queue, event, flags))

CUresult cuStreamIsCapturing(CUstream queue, CUstreamCaptureStatus *status) {
    (void)queue;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return driver_result(runtime_result(cudaSuccess));
}

SAME_AS_RUNTIME(cuStreamGetId, (CUstream queue, unsigned long long *id), cudaStreamGetId(queue, id))
SAME_AS_RUNTIME(cuLaunchHostFunc, (CUstream queue, CUhostFn function, void *data),
                cudaLaunchHostFunc(queue, function, data))
SAME_AS_RUNTIME(cuEventCreate, (CUevent * event, unsigned flags), cudaEventCreateWithFlags(event, flags))
SAME_AS_RUNTIME(cuEventDestroy, (CUevent event), cudaEventDestroy(event))
SAME_AS_RUNTIME(cuEventRecord, (CUevent event, CUstream queue), cudaEventRecord(event, queue))
SAME_AS_RUNTIME(cuEventSynchronize, (CUevent event), cudaEventSynchronize(event))
SAME_AS_RUNTIME(cuEventQuery, (CUevent event), cudaEventQuery(event))
SAME_AS_RUNTIME(cuEventElapsedTime, (float *ms, CUevent start, CUevent end),
                cudaEventElapsedTime(ms, start, end))
