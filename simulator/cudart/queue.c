/* Queues and events.  Every launch has run when its call returns, so that all queues are one and nothing is
 * waited for.  With NVFP4_SIMULATE_TIME events tell simulated time.  Without it time is nominal: a nanosecond
 * for each warp instruction executed in between, the same in every run; it says nothing of a chip's speed. */
#include <cuda_runtime_api.h>
#include <stdlib.h>

#include "registry.h"

struct CUevent_st {
    bool recorded;
    double ns; /* before it */
};

struct CUstream_st {
    int unused;
};

/* Everything has run; with simulated time the host now comes after it. */
cudaError_t runtime_wait(void) {
    struct sim *sim = runtime_lock();
    if (sim == NULL) {
        return runtime_result(cudaErrorMemoryAllocation);
    }
    sim_synchronize(sim);
    runtime_unlock();
    return runtime_result(cudaSuccess);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *queue, unsigned flags, int priority) {
    (void)flags;
    (void)priority;
    *queue = malloc(sizeof **queue);
    return runtime_result(*queue == NULL ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *queue, unsigned flags) {
    return cudaStreamCreateWithPriority(queue, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *queue) {
    return cudaStreamCreateWithPriority(queue, 0, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t queue) {
    free(queue);
    return runtime_result(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t queue) {
    (void)queue;
    return runtime_wait();
}

cudaError_t cudaStreamQuery(cudaStream_t queue) {
    (void)queue;
    return runtime_result(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t queue, cudaEvent_t event, unsigned flags) {
    (void)queue;
    (void)event;
    (void)flags;
    return runtime_result(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    (void)flags;
    *event = calloc(1, sizeof **event);
    return runtime_result(*event == NULL ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    free(event);
    return runtime_result(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t queue) {
    (void)queue;
    if (event == NULL) {
        return runtime_result(cudaErrorInvalidResourceHandle);
    }
    struct sim *sim = runtime_lock();
    if (sim == NULL) {
        return runtime_result(cudaErrorMemoryAllocation);
    }
    event->recorded = true;
    struct sim_time time;
    event->ns = sim_time(sim, &time) ? time.us * 1e3 : (double)sim_counters(sim)->instructions;
    runtime_unlock();
    return runtime_result(cudaSuccess);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t queue, unsigned flags) {
    (void)flags;
    return cudaEventRecord(event, queue);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    return event == NULL ? runtime_result(cudaErrorInvalidResourceHandle) : runtime_wait();
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    return cudaEventSynchronize(event);
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
    const double nanoseconds_in_ms = 1e6;
    if (start == NULL || end == NULL || !start->recorded || !end->recorded) {
        return runtime_result(cudaErrorInvalidResourceHandle);
    }
    *ms = (float)((end->ns - start->ns) / nanoseconds_in_ms);
    return runtime_result(cudaSuccess);
}

/* All work before it is done. */
cudaError_t cudaLaunchHostFunc(cudaStream_t queue, cudaHostFn_t function, void *data) {
    cudaError_t error = runtime_result(function == NULL ? cudaErrorInvalidValue : cudaSuccess);
    (void)queue;
    if (error == cudaSuccess) { /* after an error a card calls none */
        function(data);
    }
    return error;
}

cudaError_t cudaStreamAddCallback(cudaStream_t queue, cudaStreamCallback_t callback, void *data,
                                  unsigned flags) {
    cudaError_t error = runtime_result(callback == NULL || flags != 0 ? cudaErrorInvalidValue : cudaSuccess);
    if (callback != NULL) {
        callback(queue, error, data); /* it is told of the error */
    }
    return error;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    const int of_a_card = -5;
    *least = 0;
    *greatest = of_a_card;
    return runtime_result(cudaSuccess);
}

cudaError_t cudaStreamGetPriority(cudaStream_t queue, int *priority) {
    (void)queue;
    *priority = 0;
    return runtime_result(cudaSuccess);
}

cudaError_t cudaStreamGetFlags(cudaStream_t queue, unsigned *flags) {
    (void)queue;
    *flags = 0;
    return runtime_result(cudaSuccess);
}

/* Where L2 keeps what: advice. */
cudaError_t cudaStreamSetAttribute(cudaStream_t queue, cudaLaunchAttributeID attribute,
                                   const cudaLaunchAttributeValue *value) {
    (void)queue;
    (void)attribute;
    (void)value;
    return runtime_result(cudaSuccess);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t queue, enum cudaStreamCaptureStatus *status) {
    (void)queue;
    *status = cudaStreamCaptureStatusNone;
    return runtime_result(cudaSuccess);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode) {
    static _Thread_local enum cudaStreamCaptureMode current = cudaStreamCaptureModeGlobal;
    enum cudaStreamCaptureMode before = current;
    current = *mode;
    *mode = before;
    return runtime_result(cudaSuccess);
}
