/* The driver's queues (streams) and events: the runtime's under other names. */
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "cudart/shim.h"
#include "driver.h"

CUresult cuStreamCreate(CUstream *queue, unsigned flags) {
    return driver_result(cudaStreamCreateWithFlags(queue, flags));
}

CUresult cuStreamCreateWithPriority(CUstream *queue, unsigned flags, int priority) {
    return driver_result(cudaStreamCreateWithPriority(queue, flags, priority));
}

CUresult cuStreamDestroy(CUstream queue) {
    return driver_result(cudaStreamDestroy(queue));
}

CUresult cuStreamSynchronize(CUstream queue) {
    return driver_result(cudaStreamSynchronize(queue));
}

CUresult cuStreamQuery(CUstream queue) {
    return driver_result(cudaStreamQuery(queue));
}

CUresult cuStreamWaitEvent(CUstream queue, CUevent event, unsigned flags) {
    return driver_result(cudaStreamWaitEvent(queue, event, flags));
}

CUresult cuStreamIsCapturing(CUstream queue, CUstreamCaptureStatus *status) {
    (void)queue;
    *status = CU_STREAM_CAPTURE_STATUS_NONE;
    return driver_result(runtime_result(cudaSuccess));
}

CUresult cuStreamGetId(CUstream queue, unsigned long long *id) {
    return driver_result(cudaStreamGetId(queue, id));
}

CUresult cuLaunchHostFunc(CUstream queue, CUhostFn function, void *data) {
    return driver_result(cudaLaunchHostFunc(queue, function, data));
}

CUresult cuEventCreate(CUevent *event, unsigned flags) {
    return driver_result(cudaEventCreateWithFlags(event, flags));
}

CUresult cuEventDestroy(CUevent event) {
    return driver_result(cudaEventDestroy(event));
}

CUresult cuEventRecord(CUevent event, CUstream queue) {
    return driver_result(cudaEventRecord(event, queue));
}

CUresult cuEventSynchronize(CUevent event) {
    return driver_result(cudaEventSynchronize(event));
}

CUresult cuEventQuery(CUevent event) {
    return driver_result(cudaEventQuery(event));
}

CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end) {
    return driver_result(cudaEventElapsedTime(ms, start, end));
}
