/* Reads a kernel's arguments (arguments.h). */
#include "arguments.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

const char *read_natural(const char *text, uint64_t most, uint64_t *number) {
    char *end;
    errno = 0;
    *number = strtoull(text, &end, 0);
    return *text >= '0' && *text <= '9' && errno == 0 && *number <= most ? end : NULL;
}

int read_ctas(const char *text, uint64_t *number) {
    const char *end = read_natural(text, UINT64_MAX, number);
    return end != NULL && *end == '\0' && *number > 0 ? 0
                                                      : cli_fail("--ctas takes a number from 1 on, not", text);
}

int read_triple(const char *option, const char *text, uint32_t triple[3]) {
    char expected[60];
    const char *given = text;
    uint64_t numbers[3] = {1, 1, 1};
    for (int i = 0; i < 3; i++) {
        text = read_natural(text, UINT32_MAX, &numbers[i]);
        if (text == NULL || *text != ',') {
            break;
        }
        text++;
    }
    for (int i = 0; i < 3; i++) {
        triple[i] = (uint32_t)numbers[i];
    }
    (void)snprintf(expected, sizeof expected, "%s takes X, X,Y or X,Y,Z, not", option);
    return text != NULL && *text == '\0' && text[-1] != ',' ? 0 : cli_fail(expected, given);
}

/* Reads up to five numbers with commas between them, to the next colon; false for anything else. */
static bool read_list(const char *text, uint64_t list[5], size_t *count) {
    *count = 0;
    while (*text != '\0' && *text != ':') {
        if (*count == 5 || (text = read_natural(text, UINT64_MAX, &list[(*count)++])) == NULL ||
            (*text != ',' && *text != ':' && *text != '\0')) {
            return false;
        }
        text += *text == ',';
    }
    return *count == 0 || text[-1] != ',';
}

static bool read_map(const struct arguments *all, const char *text, struct argument *argument) {
    struct sim_tensor_map map = {.rank = 0};
    enum { BUFFER, TYPE, SWIZZLE, SIZES, STRIDES, BOX, STEPS, FILL, MAP_FIELDS };
    uint64_t fields[MAP_FIELDS][5] = {[STEPS] = {1, 1, 1, 1, 1}};
    size_t counts[MAP_FIELDS];
    char message[200];
    for (int i = 0; i < MAP_FIELDS; i++) {
        if (!read_list(text, fields[i], &counts[i])) {
            return false;
        }
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
    uint64_t bytes;
    const char *end = read_natural(text, SIZE_MAX, &bytes);
    if (end == NULL || (*end != '\0' && *end != '=')) {
        return false;
    }
    argument->buffer_bytes = bytes;
    argument->buffer = sim_alloc(sim, argument->buffer_bytes, text);
    if (argument->buffer == NULL) {
        (void)cli_fail("buffer", sim_message(sim));
        return false;
    }
    memset(argument->buffer, 0, argument->buffer_bytes);
    memcpy(argument->bytes, &argument->buffer, sizeof argument->buffer);
    if (*end == '=') {
        size_t length;
        char *content = cli_read_file(end + 1, &length);
        if (content == NULL) {
            (void)cli_fail(end + 1, strerror(errno));
            return false;
        }
        memcpy(argument->buffer, content, length < argument->buffer_bytes ? length : argument->buffer_bytes);
        free(content);
    }
    return true;
}

/* A number of 32 or 64 bits, of which `most` is the largest; a signed one may have a minus. */
static bool read_integer(const char *text, bool is_signed, uint64_t most, struct argument *argument) {
    bool minus = is_signed && *text == '-';
    uint64_t number;
    const char *end = read_natural(text + minus, minus ? most / 2 + 1 : most, &number);
    number = minus ? 0 - number : number;
    memcpy(argument->bytes, &number, 8);
    return end != NULL && *end == '\0';
}

bool read_argument(struct arguments *all, struct sim *sim, const char *text) {
    struct argument *argument = &all->list[all->count];
    const char *value = strchr(text, ':');
    if (all->count == MAX_ARGUMENTS || value == NULL) {
        return false;
    }
    value++;
    bool known;
    if (strncmp(text, "i32:", 4) == 0 || strncmp(text, "u32:", 4) == 0) {
        known = read_integer(value, *text == 'i', UINT32_MAX, argument);
    } else if (strncmp(text, "i64:", 4) == 0 || strncmp(text, "u64:", 4) == 0) {
        known = read_integer(value, *text == 'i', UINT64_MAX, argument);
    } else if (strncmp(text, "f32:", 4) == 0 || strncmp(text, "f64:", 4) == 0) {
        char *end;
        double real = strtod(value, &end);
        float narrow = (float)real;
        memcpy(argument->bytes, text[1] == '3' ? (void *)&narrow : (void *)&real, text[1] == '3' ? 4 : 8);
        known = end != value && *end == '\0';
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
