/* Reads a kernel's arguments (arguments.h). */
#include "arguments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static size_t read_list(const char *text, uint64_t list[5]) {
    size_t count = 0;
    while (*text != '\0' && *text != ':' && count < 5) {
        char *end;
        list[count++] = strtoull(text, &end, 0);
        if (end == text) {
            return 0;
        }
        text = *end == ',' ? end + 1 : end;
    }
    return count;
}

static bool read_map(const struct arguments *all, const char *text, struct argument *argument) {
    struct sim_tensor_map map = {.rank = 0};
    enum { BUFFER, TYPE, SWIZZLE, SIZES, STRIDES, BOX, STEPS, FILL, MAP_FIELDS };
    uint64_t fields[MAP_FIELDS][5] = {[STEPS] = {1, 1, 1, 1, 1}};
    size_t counts[MAP_FIELDS];
    char message[200];
    for (int i = 0; i < MAP_FIELDS; i++) {
        counts[i] = read_list(text, fields[i]);
        text = strchr(text, ':');
        if (text == NULL && i < BOX) {
            return false;
        }
        text = text == NULL ? "" : text + 1;
    }
    if (fields[BUFFER][0] >= all->count || all->list[fields[BUFFER][0]].buffer == NULL) {
        return false;
    }
    map.address = all->list[fields[BUFFER][0]].buffer;
    map.data_type = (uint32_t)fields[TYPE][0];
    map.swizzle = (uint32_t)fields[SWIZZLE][0];
    map.rank = (uint32_t)counts[SIZES];
    map.oob_fill = (uint32_t)fields[FILL][0];
    for (int i = 0; i < 5; i++) {
        map.sizes[i] = fields[SIZES][i];
        map.strides[i] = fields[STRIDES][i];
        map.box[i] = (uint32_t)fields[BOX][i];
        map.element_strides[i] = (uint32_t)fields[STEPS][i];
    }
    if (sim_encode_tensor_map(argument->bytes, &map, message, sizeof message) != 0) {
        (void)cli_fail("tensor map", message);
        return false;
    }
    return true;
}

static bool read_buffer(struct sim *sim, const char *text, struct argument *argument) {
    char *end;
    argument->buffer_bytes = strtoull(text, &end, 0);
    argument->buffer = sim_alloc(sim, argument->buffer_bytes, text);
    if (argument->buffer == NULL) {
        (void)cli_fail("buffer", sim_message(sim));
        return false;
    }
    memset(argument->buffer, 0, argument->buffer_bytes);
    memcpy(argument->bytes, &argument->buffer, sizeof argument->buffer);
    if (*end == '=') {
        size_t bytes;
        char *content = cli_read_file(end + 1, &bytes);
        if (content == NULL) {
            (void)cli_fail(end + 1, strerror(errno));
            return false;
        }
        memcpy(argument->buffer, content, bytes < argument->buffer_bytes ? bytes : argument->buffer_bytes);
        free(content);
    }
    return true;
}

bool read_argument(struct arguments *all, struct sim *sim, const char *text) {
    struct argument *argument = &all->list[all->count];
    const char *value = strchr(text, ':');
    if (all->count == MAX_ARGUMENTS || value == NULL) {
        return false;
    }
    value++;
    int64_t integer = strtoll(value, NULL, 0);
    uint64_t natural = strtoull(value, NULL, 0);
    double real = strtod(value, NULL);
    float narrow = (float)real;
    bool known = true;
    if (strncmp(text, "i32:", 4) == 0 || strncmp(text, "i64:", 4) == 0) {
        memcpy(argument->bytes, &integer, 8);
    } else if (strncmp(text, "u32:", 4) == 0 || strncmp(text, "u64:", 4) == 0) {
        memcpy(argument->bytes, &natural, 8);
    } else if (strncmp(text, "f32:", 4) == 0) {
        memcpy(argument->bytes, &narrow, 4);
    } else if (strncmp(text, "f64:", 4) == 0) {
        memcpy(argument->bytes, &real, 8);
    } else if (strncmp(text, "buf:", 4) == 0) {
        known = read_buffer(sim, value, argument);
    } else if (strncmp(text, "map:", 4) == 0) {
        known = read_map(all, value, argument);
    } else {
        known = false;
    }
    all->count++;
    return known;
}
