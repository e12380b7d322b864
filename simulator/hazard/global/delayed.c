/* Delays the stores of a launch, for each later thread until that thread knows the launch to be complete.
 *
 * Launches run one after another, so the stores are in memory at once.  An image keeps the bytes that were
 * there before.  A thread of a later launch that does not know of the stores reads the image, and its own
 * stores go into the image, as if they came first: the latest moment that the order allows, for each thread by
 * itself. */
#include "delayed.h"

#include <stdlib.h>

#include "hazard/hazard.h"
#include "line.h"

static struct image *new_image(const struct run *run) {
    struct image_chunk *chunk = run->worker->images;
    if (chunk == NULL || chunk->count == CHUNK_IMAGES) {
        struct image_chunk **list = run->launch->order.images;
        chunk = malloc(sizeof *chunk);
        if (chunk == NULL) {
            return NULL;
        }
        chunk->count = 0;
        chunk->next = __atomic_load_n(list, __ATOMIC_RELAXED);
        while (
            !__atomic_compare_exchange_n(list, &chunk->next, chunk, true, __ATOMIC_RELEASE, __ATOMIC_RELAXED)) {
        }
        run->worker->images = chunk;
    }
    return &chunk->image[chunk->count++];
}

bool delayed_note(struct images *images, const struct run *run, const uint8_t *memory, uint64_t valid,
                  const uint64_t mask[RECORD_WORDS]) {
    uint32_t number = run->launch->order.number;
    if (images->newest == NULL || images->launch != number) {
        struct image *made = new_image(run);
        if (made == NULL) {
            return false;
        }
        *made = (struct image){.older = images->newest, .launch = number, .older_launch = images->launch};
        memcpy(made->bytes, memory, valid < RECORD_BYTES ? valid : RECORD_BYTES);
        *images = (struct images){made, number};
    }
    for (uint32_t i = 0; i < RECORD_WORDS; i++) {
        images->newest->mask[i] |= mask[i];
    }
    return true;
}

const struct known *delayed_view(const struct run *run) {
    const struct launch_order *order = &run->launch->order;
    if (!order->sees_old || !order->delays || !run->cluster->checks ||
        run->warp->clock->acquired[run->cluster->flag_index] != 0) {
        return NULL;
    }
    const struct known *view = order->dependent && !order_waited(run) ? &order->start : &order->waited;
    return view->floor < order->number ? view : NULL;
}

/* The image in which a thread with this view finds a byte of a line: the oldest made by a launch that the view
 * does not contain.  NULL: the byte in memory itself. */
static struct image *hidden(const struct images *images, const struct launch_order *order,
                            const struct known *view, uint32_t byte) {
    struct image *found = NULL;
    uint32_t launch = images->launch;
    for (struct image *image = images->newest; image != NULL && launch >= order->settled;) {
        bool wrote = image->mask[byte / 64] >> byte % 64 & 1;
        found = wrote && launch != order->number && !known_has(view, launch) ? image : found;
        launch = image->older_launch;
        image = image->older;
    }
    return found;
}

/* A part of a line.  images: NULL without any; else the line is locked. */
struct part {
    struct line *line;
    struct images *images;
    uint32_t first, bytes;
};

static struct part part_of(const struct launch *launch, uint64_t address, uint64_t bytes) {
    struct part part = {.line = NULL};
    part.images = line_images(launch->sim, address, &part.line, &part.first);
    part.bytes = bytes < RECORD_BYTES - part.first ? (uint32_t)bytes : RECORD_BYTES - part.first;
    return part;
}

const uint8_t *delayed_read(const struct launch *launch, const struct known *view, uint64_t address,
                            uint64_t bytes, uint8_t *room) {
    const uint8_t *memory = (const uint8_t *)(uintptr_t)address;
    memcpy(room, memory, bytes);
    for (uint64_t at = 0; at < bytes;) {
        struct part part = part_of(launch, address + at, bytes - at);
        for (uint32_t i = 0; part.images != NULL && i < part.bytes; i++) {
            const struct image *image = hidden(part.images, &launch->order, view, part.first + i);
            if (image != NULL) {
                room[at + i] = image->bytes[part.first + i];
            }
        }
        if (part.images != NULL) {
            line_unlock(part.line);
        }
        at += part.bytes;
    }
    return room;
}

void delayed_write(const struct launch *launch, const struct known *view, uint64_t address, uint64_t bytes,
                   const uint8_t *from) {
    uint8_t *memory = (uint8_t *)(uintptr_t)address;
    for (uint64_t at = 0; at < bytes;) {
        struct part part = part_of(launch, address + at, bytes - at);
        for (uint32_t i = 0; i < part.bytes; i++) {
            struct image *image =
                part.images == NULL ? NULL : hidden(part.images, &launch->order, view, part.first + i);
            *(image == NULL ? &memory[at + i] : &image->bytes[part.first + i]) = from[at + i];
        }
        if (part.images != NULL) {
            line_unlock(part.line);
        }
        at += part.bytes;
    }
}
