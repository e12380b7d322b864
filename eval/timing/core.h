/* The timed part of a round, in the worker: from the parent's word to the last call. The submission's function
   is the only Python function that runs between the start and the stop of the clock.

   The caller holds Python's lock (ctypes.PyDLL) throughout, so no other Python thread of the submission runs
   between the arrival of the inputs and the first call. Tables of function pointers, filled before the
   submission is imported, give access to Python and CUDA without their headers. */
#ifndef EVAL_TIMING_CORE_H
#define EVAL_TIMING_CORE_H

#include <stddef.h>
#include <stdint.h>

/* The status of a round. A raised Python exception stays set, for ctypes to raise. */
enum {
    TIMING_OK = 0,
    TIMING_RAISED = -1,  /* the kernel, or `returned`, raised */
    TIMING_NO_WORD = -2, /* the parent's end of the socket is closed, or sent something else */
    TIMING_NO_MAP = -3,  /* the lent memory could not be mapped */
    TIMING_CUDA = -4,    /* a CUDA call failed: see `cuda_status` */
};

/* PyObject_CallFunctionObjArgs and Py_DecRef. */
struct timing_python {
    void *(*call)(void *callable, ...);
    void (*release)(void *object);
};

/* Functions of the CUDA runtime, with the runtime's signatures, and the events of a round. `queue` is the
 * default queue. */
struct timing_cuda {
    int (*record)(void *event, void *queue);
    int (*wait)(void *queue, void *event, unsigned flags);
    int (*synchronize_event)(void *event);
    int (*synchronize_device)(void);
    int (*elapsed_ms)(float *ms, void *start, void *stop);
    int (*copy)(void *to, const void *from, size_t bytes, int kind, void *queue);
    void *queue;
    void *lent;  /* the parent's: recorded once the last byte of the inputs is in place */
    void *start; /* recorded before the first call */
    void *stop;  /* recorded after the last call */
    void *kept;  /* recorded after the copies of the outputs */
};

/* One round. kernel(data[i]) returns an output. The core copies `copied` of the outputs that the worker offers
   to lent memory, which takes less time than Python's part of it: each after its call, on CUDA all together.
   returned(data[i], output) checks and copies an output other than `own[i]`, which is the offered one. */
struct timing_round {
    void *kernel;
    void *returned;
    void *const *data;
    void *const *own;
    void **outputs; /* room for `count` */
    int32_t count;
    int32_t copied;          /* how many offered outputs to copy; 0 if they are in lent memory already */
    int32_t socket;          /* a SOCK_SEQPACKET whose next message is the parent's word */
    void *memory;            /* where the lent host memory is mapped, replacing the last mapping */
    size_t bytes;            /* of that memory; on CUDA 0 if all inputs are on the device */
    const void *own_outputs; /* those that the worker offers, one after the other */
    void *lent_outputs;      /* where they are copied to */
    size_t output_bytes;
    int64_t total_ns; /* result: the time of all calls */
    int64_t rest_ns;  /* result, on CUDA: how long the device ran on after the default queue was done */
    int32_t cuda_status;
};

/* The parent's word: one byte, with a descriptor if host memory is lent. */
#define TIMING_WORD 'g'

/* Takes the lent host memory of the last round away, and gives back its pages, which takes long. Memory of the
   worker's own lies in its place until the next round. */
int32_t timing_drop(void *memory, size_t bytes);

/* Waits for the word, maps the memory that arrives with it, and times each call; `returned` runs after each
   call, untimed. */
int32_t timing_cpu_round(const struct timing_python *python, struct timing_round *round);

/* Waits for the word, then queues: a wait for the parent's event, start, every call, stop, the copies, kept. */
int32_t timing_cuda_round(const struct timing_python *python, const struct timing_cuda *cuda,
                          struct timing_round *round);

#endif
