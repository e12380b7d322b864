/* Queues (streams) and events.  Every launch has run when its call returns, so no call here waits; queues and
 * events matter for the checks of order between launches.
 *
 * With NVFP4_SIMULATE_TIME the times of events are simulated.  Without it they are nominal: one nanosecond for
 * each warp instruction executed, the same in every run and unrelated to the speed of a chip. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>

#include "graph.h"

enum { HIGHEST_PRIORITY = -5 }; /* as on cards */

/* The handles of the default queues are constants, not addresses. */
static bool is_default(cudaStream_t queue) {
    return queue == NULL || queue == cudaStreamLegacy || queue == cudaStreamPerThread;
}

unsigned runtime_queue(struct sim *sim, cudaStream_t queue) {
    static unsigned of_thread; /* cudaStreamPerThread: one queue for all threads */
    if (queue == NULL || queue == cudaStreamLegacy) {
        return 0;
    }
    if (queue == cudaStreamPerThread) {
        of_thread = of_thread == 0 ? sim_queue_create(sim, 1) : of_thread;
        return of_thread;
    }
    return queue->number;
}

cudaError_t runtime_synchronize(cudaStream_t queue, bool all) {
    struct sim *sim = runtime_lock();
    RETURN_IF_NO_MEMORY(sim);
    sim_synchronize(sim);
    int status = all ? sim_queues_synchronize(sim) : sim_queue_synchronize(sim, runtime_queue(sim, queue));
    runtime_unlock();
    return runtime_result(status == SIM_OK ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *queue, unsigned flags, int priority) {
    if (flags != cudaStreamDefault && flags != cudaStreamNonBlocking) {
        return runtime_result(cudaErrorInvalidValue);
    }
    struct sim *sim = runtime_lock();
    *queue = NULL;
    RETURN_IF_NO_MEMORY(sim);
    *queue = calloc(1, sizeof **queue);
    if (*queue != NULL) {
        (*queue)->flags = flags;
        (*queue)->priority = priority > 0 ? 0 : priority < HIGHEST_PRIORITY ? HIGHEST_PRIORITY : priority;
        (*queue)->number = sim_queue_create(sim, flags != cudaStreamNonBlocking);
        if ((*queue)->number == 0) {
            free(*queue);
            *queue = NULL;
        }
    }
    runtime_unlock();
    return runtime_result(*queue == NULL ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaStreamGetId(cudaStream_t queue, unsigned long long *id) {
    struct sim *sim = runtime_lock();
    RETURN_IF_NO_MEMORY(sim);
    *id = runtime_queue(sim, queue);
    runtime_unlock();
    return runtime_result(cudaSuccess);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *queue, unsigned flags) {
    return cudaStreamCreateWithPriority(queue, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *queue) {
    return cudaStreamCreateWithPriority(queue, 0, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t queue) {
    if (is_default(queue)) {
        return runtime_result(cudaErrorInvalidResourceHandle);
    }
    struct sim *sim = runtime_lock();
    if (sim != NULL) {
        sim_queue_destroy(sim, queue->number);
        runtime_unlock();
    }
    captured_free(&queue->captured);
    free(queue);
    return runtime_result(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t queue) {
    cudaError_t error;
    return capture_refuses(queue, &error) ? runtime_result(error) : runtime_synchronize(queue, false);
}

cudaError_t cudaStreamQuery(cudaStream_t queue) {
    return runtime_synchronize(queue, false); /* success means that all work is done */
}

cudaError_t cudaStreamWaitEvent(cudaStream_t queue, cudaEvent_t event, unsigned flags) {
    cudaError_t error;
    (void)flags;
    if (event == NULL) {
        return runtime_result(cudaErrorInvalidResourceHandle);
    }
    if (capture_wait(queue, event, &error)) {
        return runtime_result(error);
    }
    struct sim *sim = runtime_lock();
    RETURN_IF_NO_MEMORY(sim);
    int status = event->order == NULL ? SIM_OK : sim_queue_wait(sim, runtime_queue(sim, queue), event->order);
    runtime_unlock();
    return runtime_result(status == SIM_OK ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    if ((*event = calloc(1, sizeof **event)) == NULL) {
        return runtime_result(cudaErrorMemoryAllocation);
    }
    (*event)->untimed = (flags & cudaEventDisableTiming) != 0;
    return runtime_result(cudaSuccess);
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
    return cudaEventCreateWithFlags(event, 0);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    if (event == NULL) {
        return runtime_result(cudaErrorInvalidResourceHandle);
    }
    sim_event_free(event->order);
    captured_free(&event->captured);
    free(event);
    return runtime_result(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t queue) {
    if (event == NULL) {
        return runtime_result(cudaErrorInvalidResourceHandle);
    }
    if (capture_record(queue, event)) {
        return runtime_result(cudaSuccess);
    }
    struct sim *sim = runtime_lock();
    RETURN_IF_NO_MEMORY(sim);
    event->recorded = true;
    struct sim_time time;
    event->ns = sim_time(sim, &time) ? time.us * 1e3 : (double)sim_counters(sim)->instructions;
    sim_event_free(event->order);
    event->order = sim_event_record(sim, runtime_queue(sim, queue));
    runtime_unlock();
    return runtime_result(event->order == NULL ? cudaErrorMemoryAllocation : cudaSuccess);
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t queue, unsigned flags) {
    (void)flags;
    return cudaEventRecord(event, queue);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    if (event == NULL) {
        return runtime_result(cudaErrorInvalidResourceHandle);
    }
    struct sim *sim = runtime_lock();
    RETURN_IF_NO_MEMORY(sim);
    sim_synchronize(sim);
    int status = event->order == NULL ? SIM_OK : sim_event_synchronize(sim, event->order);
    runtime_unlock();
    return runtime_result(status == SIM_OK ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    return cudaEventSynchronize(event);
}

/* Prints once what the times of events mean. */
static void explain_times(void) {
    static bool explained;
    struct sim *sim = explained ? NULL : runtime_lock();
    struct sim_time time;
    if (sim == NULL) {
        return;
    }
    explained = true;
    if (sim_time(sim, &time)) {
        (void)fprintf(stderr, "simulator: event times are simulated (%s), not measured\n", time.chip);
    } else {
        (void)fputs("simulator: event times are nominal, 1 ns for each warp instruction; "
                    "NVFP4_SIMULATE_TIME=CHIP simulates them\n",
                    stderr);
    }
    runtime_unlock();
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
    const double nanoseconds_in_ms = 1e6;
    if (start == NULL || end == NULL || !start->recorded || !end->recorded || start->untimed || end->untimed) {
        return runtime_result(cudaErrorInvalidResourceHandle);
    }
    explain_times();
    *ms = (float)((end->ns - start->ns) / nanoseconds_in_ms);
    return runtime_result(cudaSuccess);
}

/* Calls the function at once: all work before it is complete. */
cudaError_t cudaLaunchHostFunc(cudaStream_t queue, cudaHostFn_t function, void *data) {
    cudaError_t error = runtime_result(function == NULL ? cudaErrorInvalidValue : cudaSuccess);
    if (error == cudaSuccess && capture_host(queue, function, data, &error)) {
        return runtime_result(error);
    }
    if (error == cudaSuccess) { /* after an error, a card does not call it */
        function(data);
    }
    return error;
}

cudaError_t cudaStreamAddCallback(cudaStream_t queue, cudaStreamCallback_t callback, void *data,
                                  unsigned flags) {
    cudaError_t error = runtime_result(callback == NULL || flags != 0 ? cudaErrorInvalidValue : cudaSuccess);
    if (callback != NULL) {
        callback(queue, error, data); /* receives the error, unlike a host function */
    }
    return error;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
    *least = 0;
    *greatest = HIGHEST_PRIORITY;
    return runtime_result(cudaSuccess);
}

cudaError_t cudaStreamGetPriority(cudaStream_t queue, int *priority) {
    *priority = is_default(queue) ? 0 : queue->priority;
    return runtime_result(cudaSuccess);
}

cudaError_t cudaStreamGetFlags(cudaStream_t queue, unsigned *flags) {
    *flags = is_default(queue) ? 0 : queue->flags;
    return runtime_result(cudaSuccess);
}

/* These attributes are hints for L2. */
cudaError_t cudaStreamSetAttribute(cudaStream_t queue, cudaLaunchAttributeID attribute,
                                   const cudaLaunchAttributeValue *value) {
    (void)queue;
    (void)attribute;
    (void)value;
    return runtime_result(cudaSuccess);
}
