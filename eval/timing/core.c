/* The timed part of a round: see core.h. */
#include "core.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S  1000000000
#define NS_PER_MS 1e6

#define DEVICE_TO_DEVICE 3 /* cudaMemcpyDeviceToDevice */

#define EXPORTED __attribute__((visibility("default")))

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

/* The descriptor that arrived with a message; -1 if none. */
static int descriptor_of(struct msghdr *message) {
    struct cmsghdr *header = CMSG_FIRSTHDR(message);
    int descriptor = -1;
    if (header != NULL && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
        header->cmsg_len == CMSG_LEN(sizeof descriptor)) {
        memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    }
    return descriptor;
}

/* Waits for the parent's word; sets `descriptor` to the lent memory's, or -1. */
static int32_t wait_for_word(int socket, int *descriptor) {
    char word = 0;
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {&word, sizeof word};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    message.msg_control = &control;
    message.msg_controllen = sizeof control;
    ssize_t got;
    do {
        got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    } while (got < 0 && errno == EINTR);
    *descriptor = got > 0 ? descriptor_of(&message) : -1;
    int whole = got == sizeof word && (message.msg_flags & MSG_TRUNC) == 0;
    return whole && word == TIMING_WORD ? TIMING_OK : TIMING_NO_WORD;
}

EXPORTED int32_t timing_drop(void *memory, size_t bytes) {
    void *mapped = mmap(memory, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    return mapped == memory ? TIMING_OK : TIMING_NO_MAP;
}

/* Maps the lent memory where the last round's was: new contents, old pointers. `flags` are added to mmap's. */
static int32_t map_lent(int descriptor, const struct timing_round *round, int flags) {
    if (descriptor < 0) {
        return TIMING_NO_MAP;
    }
    void *mapped = mmap(round->memory, round->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | flags,
                        descriptor, 0);
    close(descriptor);
    return mapped == round->memory ? TIMING_OK : TIMING_NO_MAP;
}

static int32_t hand_over(const struct timing_python *python, const struct timing_round *round, int32_t i,
                         void *output) {
    void *result = python->call(round->returned, round->data[i], output, NULL);
    if (result == NULL) {
        return TIMING_RAISED;
    }
    python->release(result);
    return TIMING_OK;
}

EXPORTED int32_t timing_cpu_round(const struct timing_python *python, struct timing_round *round) {
    int descriptor;
    int32_t status = wait_for_word(round->socket, &descriptor);
    if (status == TIMING_OK) {
        status = map_lent(descriptor, round, MAP_POPULATE);
    }
    round->total_ns = 0;
    for (int32_t i = 0; i < round->count && status == TIMING_OK; i++) {
        int64_t start = now_ns();
        void *output = python->call(round->kernel, round->data[i], NULL);
        round->total_ns += now_ns() - start;
        if (output == NULL) {
            return TIMING_RAISED;
        }
        if (i < round->copied) {
            size_t offset = (size_t)i * round->output_bytes;
            memcpy((char *)round->lent_outputs + offset, (const char *)round->own_outputs + offset,
                   round->output_bytes);
        }
        if (output != round->own[i]) {
            status = hand_over(python, round, i, output);
        }
        python->release(output);
    }
    return status;
}

/* Queues the calls between two events; `made` counts the outputs that have to be released. */
static int32_t queue_calls(const struct timing_python *python, const struct timing_cuda *cuda,
                           struct timing_round *round, int32_t *made) {
    int status = cuda->wait(cuda->queue, cuda->lent, 0);
    status = status != 0 ? status : cuda->record(cuda->start, cuda->queue);
    for (int32_t i = 0; i < round->count && status == 0; i++) {
        round->outputs[i] = python->call(round->kernel, round->data[i], NULL);
        if (round->outputs[i] == NULL) {
            return TIMING_RAISED;
        }
        ++*made;
    }
    status = status != 0 ? status : cuda->record(cuda->stop, cuda->queue);
    round->cuda_status = status;
    return status == 0 ? TIMING_OK : TIMING_CUDA;
}

/* Queues copies of the outputs right after the timed calls: they miss what another queue writes later. */
static int32_t copy_outputs(const struct timing_python *python, const struct timing_cuda *cuda,
                            struct timing_round *round) {
    size_t bytes = (size_t)round->copied * round->output_bytes;
    if (bytes > 0) {
        round->cuda_status =
            cuda->copy(round->lent_outputs, round->own_outputs, bytes, DEVICE_TO_DEVICE, cuda->queue);
    }
    int32_t status = round->cuda_status == 0 ? TIMING_OK : TIMING_CUDA;
    for (int32_t i = 0; i < round->count && status == TIMING_OK; i++) {
        if (round->outputs[i] != round->own[i]) {
            status = hand_over(python, round, i, round->outputs[i]);
        }
    }
    return status;
}

/* Waits for the copies of the outputs, reads the device's clock, measures how long other work still runs. */
static int32_t read_clock(const struct timing_cuda *cuda, struct timing_round *round) {
    float ms = 0;
    int status = cuda->record(cuda->kept, cuda->queue);
    status = status != 0 ? status : cuda->synchronize_event(cuda->kept);
    int64_t done_ns = now_ns();
    status = status != 0 ? status : cuda->synchronize_device();
    round->rest_ns = now_ns() - done_ns;
    status = status != 0 ? status : cuda->elapsed_ms(&ms, cuda->start, cuda->stop);
    round->total_ns = (int64_t)((double)ms * NS_PER_MS);
    round->cuda_status = status;
    return status == 0 ? TIMING_OK : TIMING_CUDA;
}

EXPORTED int32_t timing_cuda_round(const struct timing_python *python, const struct timing_cuda *cuda,
                                   struct timing_round *round) {
    int descriptor;
    int32_t made = 0;
    int32_t status = wait_for_word(round->socket, &descriptor);
    if (status == TIMING_OK && round->bytes > 0) {
        status = map_lent(descriptor, round, 0); /* not populated: most kernels never read it */
    } else if (descriptor >= 0) {
        close(descriptor);
    }
    if (status == TIMING_OK) {
        status = queue_calls(python, cuda, round, &made);
    }
    if (status == TIMING_OK) {
        status = copy_outputs(python, cuda, round);
    }
    if (status == TIMING_OK) {
        status = read_clock(cuda, round);
    }
    for (int32_t i = 0; i < made; i++) {
        python->release(round->outputs[i]);
    }
    return status;
}
