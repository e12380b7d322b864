/* Reads a chip's file: {"chip": ..., "parameters": {NAME: {"value", "unit", "source"}, ...}}. */
#include "chip.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_FILE  (1u << 18)
#define NAME_ROOM 64
#define MAX_POWER 8u /* highest hbm_loaded_power, which is a loop's length */

/* The build embeds the chips' files, so that a program needs no path. */
#define EMBED(symbol, file)                                                                                    \
    __asm__(".section .rodata\n.global " #symbol "\n" #symbol ":\n.incbin \"simulator/clock/chips/" file       \
            "\"\n.byte 0\n.previous\n");                                                                       \
    extern const char symbol[] __attribute__((visibility("hidden")))
EMBED(chip_text_h200, "h200.json");
EMBED(chip_text_b200, "b200.json");
EMBED(chip_text_rtx5090, "rtx5090.json");
/* How far off each chip's model is: a line written by simulator/calibration. */
EMBED(chip_error_h200, "h200.error");
EMBED(chip_error_b200, "b200.error");
EMBED(chip_error_rtx5090, "rtx5090.error");

struct reader {
    const char *at, *end;
    char *message;
    size_t room;
    bool failed;
    bool machine; /* take "machine" values */
};

static void fail(struct reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fail(struct reader *r, const char *format, ...) {
    va_list arguments;
    if (!r->failed) { /* the first failure is the cause */
        va_start(arguments, format);
        (void)vsnprintf(r->message, r->room, format, arguments);
        va_end(arguments);
    }
    r->failed = true;
}

/* How many of the next characters a message quotes; the text is not terminated. */
static int quoted(const struct reader *r) {
    const ptrdiff_t most = 12, left = r->end - r->at;
    return (int)(left < most ? left : most);
}

static char peek(struct reader *r) {
    while (r->at < r->end && strchr(" \t\r\n", *r->at) != NULL && *r->at != '\0') {
        r->at++;
    }
    return r->at < r->end && !r->failed ? *r->at : '\0';
}

static bool take(struct reader *r, char c) {
    if (peek(r) != c) {
        return false;
    }
    r->at++;
    return true;
}

static void need(struct reader *r, char c, const char *where) {
    if (!take(r, c)) {
        fail(r, "%s: expected '%c' at '%.*s'", where, c, quoted(r), r->at);
    }
}

/* A string without escapes; names, units and sources need none. */
static void read_text(struct reader *r, char *to, size_t room, const char *where) {
    size_t used = 0;
    need(r, '"', where);
    while (!r->failed && r->at < r->end && *r->at != '"') {
        if (*r->at == '\\' || used + 1 >= room) {
            fail(r, "%s: a string that is too long or has an escape", where);
            break;
        }
        to[used++] = *r->at++;
    }
    to[used] = '\0';
    need(r, '"', where);
}

/* Reads the key of the next member: `name`, or true for `other` if that is not NULL. */
static bool need_key(struct reader *r, const char *name, const char *other, const char *where) {
    char key[NAME_ROOM];
    read_text(r, key, sizeof key, where);
    need(r, ':', where);
    const bool is_other = other != NULL && strcmp(key, other) == 0;
    if (!is_other && strcmp(key, name) != 0) {
        fail(r, "%s: a member '%s'; expected %s", where, key, name);
    }
    return is_other;
}

static double read_number(struct reader *r, const char *where) {
    char digits[40] = "", *end;
    (void)peek(r);
    for (size_t i = 0;
         i + 1 < sizeof digits && r->at < r->end && strchr("+-.eE0123456789", *r->at) != NULL && *r->at != '\0';
         i++) {
        digits[i] = *r->at++;
    }
    double value = strtod(digits, &end);
    if (end == digits || *end != '\0' || !isfinite(value)) {
        fail(r, "%s: no number at '%.*s'", where, quoted(r), r->at);
        return 0;
    }
    return value;
}

/* ---- parameters ---- */

static const struct place {
    const char *name;
    enum parameter_kind kind;
    bool curve, needed;
    size_t offset;
} places[] = {
#define X(name, kind) {#name, kind, false, true, offsetof(struct chip, name)},
    CHIP_PARAMETERS(X)
#undef X
#define X(name, kind) {#name, kind, false, false, offsetof(struct chip, name)},
        CHIP_MECHANISMS(X)
#undef X
#define X(name) {#name, CYCLES, true, true, offsetof(struct chip, name)},
            CHIP_CURVES(X)
#undef X
#define X(name) {#name, CYCLES, true, false, offsetof(struct chip, name)},
                CHIP_MECHANISM_CURVES(X)
#undef X
};
#define PLACES (sizeof places / sizeof *places)

static bool right_unit(enum parameter_kind kind, const char *unit) {
    switch (kind) {
    case COUNT:
        return strcmp(unit, "count") == 0 || strcmp(unit, "bytes") == 0;
    case CYCLES:
        return strcmp(unit, "cycles") == 0;
    case RATE:
        return strcmp(unit, "bytes/cycle") == 0;
    default:
        return strcmp(unit, "GHz") == 0;
    }
}

static uint64_t stored(struct reader *r, const struct place *place, double value) {
    const double least_rate = 1.0 / 1024, most = 1e15;
    if (value < 0 || value > most ||
        ((place->kind == RATE || place->kind == MEGAHERTZ) && value < least_rate)) {
        fail(r, "%s: %g is outside of what it may be", place->name, value);
        return 0;
    }
    switch (place->kind) {
    case COUNT:
        return (uint64_t)llround(value);
    case CYCLES:
        return (uint64_t)llround(value * TICKS);
    case RATE:
        return (uint64_t)llround((double)TICKS * RATE_ONE / value);
    default:
        return (uint64_t)llround(value * 1000);
    }
}

/* Reads a parameter behind its key.  Every value must name its source. */
static void read_value(struct reader *r, struct chip *chip, const struct place *place) {
    char unit[NAME_ROOM], source[400];
    struct curve curve = {0};
    double value = 0;
    need(r, '{', place->name);
    (void)need_key(r, "value", NULL, place->name);
    if (place->curve) {
        need(r, '[', place->name);
        do {
            if (curve.count == CURVE_POINTS) {
                fail(r, "%s: more than %d points", place->name, CURVE_POINTS);
                return;
            }
            need(r, '[', place->name);
            curve.x[curve.count] = (uint64_t)llround(fabs(read_number(r, place->name)));
            need(r, ',', place->name);
            curve.y[curve.count] = stored(r, place, read_number(r, place->name));
            need(r, ']', place->name);
            if (curve.count > 0 && curve.x[curve.count] <= curve.x[curve.count - 1]) {
                fail(r, "%s: its points do not rise", place->name);
            }
            curve.count++;
        } while (take(r, ','));
        need(r, ']', place->name);
    } else {
        value = read_number(r, place->name);
    }
    need(r, ',', place->name);
    if (need_key(r, "unit", place->curve ? NULL : "machine", place->name)) {
        const double by_machine = read_number(r, place->name);
        value = r->machine ? by_machine : value;
        need(r, ',', place->name);
        (void)need_key(r, "unit", NULL, place->name);
    }
    read_text(r, unit, sizeof unit, place->name);
    need(r, ',', place->name);
    (void)need_key(r, "source", NULL, place->name);
    read_text(r, source, sizeof source, place->name);
    need(r, '}', place->name);
    if (!r->failed && !right_unit(place->kind, unit)) {
        fail(r, "%s: unit '%s'", place->name, unit);
    }
    bool sourced =
        !r->failed && (strncmp(source, "measured:", 9) == 0 || strncmp(source, "published", 9) == 0 ||
                       strncmp(source, "fitted", 6) == 0 || strncmp(source, "assumed", 7) == 0);
    if (!r->failed && !sourced) {
        fail(r, "%s: source '%.40s'; expected measured:, published, fitted or assumed", place->name, source);
    }
    uint8_t *to = (uint8_t *)chip + place->offset;
    if (!r->failed && place->curve) {
        memcpy(to, &curve, sizeof curve);
    } else if (!r->failed) {
        uint64_t number = stored(r, place, value);
        memcpy(to, &number, sizeof number);
    }
}

/* Reads a chip from the text of its file. */
static bool chip_read(struct chip *chip, const char *text, size_t bytes, bool machine, char *message,
                      size_t room) {
    struct reader r = {text, text + bytes, message, room, false, machine};
    char key[NAME_ROOM];
    bool seen[PLACES] = {false};
    memset(chip, 0, sizeof *chip);
    need(&r, '{', "chip file");
    (void)need_key(&r, "chip", NULL, "chip file");
    read_text(&r, chip->name, sizeof chip->name, "chip");
    need(&r, ',', "chip");
    (void)need_key(&r, "parameters", NULL, "chip file");
    need(&r, '{', "parameters");
    do {
        size_t at = 0;
        read_text(&r, key, sizeof key, "parameters");
        need(&r, ':', key);
        while (at < PLACES && strcmp(places[at].name, key) != 0) {
            at++;
        }
        if (!r.failed && (at == PLACES || seen[at])) {
            fail(&r, "%s: %s", key, at == PLACES ? "no such parameter" : "given twice");
        }
        if (!r.failed) {
            seen[at] = true;
            read_value(&r, chip, &places[at]);
        }
    } while (take(&r, ','));
    need(&r, '}', "parameters");
    need(&r, '}', "chip file");
    for (size_t i = 0; i < PLACES && !r.failed; i++) {
        if (places[i].needed && !seen[i]) {
            fail(&r, "%s: missing", places[i].name);
        }
    }
    if (!r.failed &&
        (chip->sms == 0 || chip->processing_cluster_sms == 0 || chip->processing_cluster_short_sms == 0)) {
        fail(&r, "sms: a chip without SMs");
    }
    if (!r.failed && chip->hbm_loaded_power > MAX_POWER) {
        fail(&r, "hbm_loaded_power: more than %u", MAX_POWER);
    }
    if (!r.failed && chip->l1_bytes < LINE_BYTES) {
        fail(&r, "l1_bytes: less than a line of %d bytes", LINE_BYTES);
    }
    if (!r.failed && chip->l2_bytes < L2_WAYS * LINE_BYTES) {
        fail(&r, "l2_bytes: less than a set of %d lines of %d bytes", L2_WAYS, LINE_BYTES);
    }
    return !r.failed;
}

static bool own(struct chip *chip, const char *text, const char *error, bool machine, char *message,
                size_t room) {
    bool done = chip_read(chip, text, strlen(text), machine, message, room);
    (void)snprintf(chip->error, sizeof chip->error, "%.*s", (int)strcspn(error, "\n"), error);
    return done;
}

bool chip_load(struct chip *chip, const char *name, bool machine, char *message, size_t room) {
    size_t length = strlen(name);
    static const struct {
        const char *name, *text, *error;
    } known[] = {{"h200", chip_text_h200, chip_error_h200},
                 {"b200", chip_text_b200, chip_error_b200},
                 {"rtx5090", chip_text_rtx5090, chip_error_rtx5090}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(name, known[i].name) == 0) {
            return own(chip, known[i].text, known[i].error, machine, message, room);
        }
    }
    bool path = strchr(name, '/') != NULL || (length > 5 && strcmp(name + length - 5, ".json") == 0);
    FILE *file = path ? fopen(name, "rb") : NULL;
    char *text = file == NULL ? NULL : malloc(MAX_FILE);
    if (text == NULL) {
        (void)snprintf(message, room,
                       file != NULL
                           ? "out of memory for '%.100s'"
                           : "no chip '%.100s'; there are h200, b200, rtx5090, or a file of parameters",
                       name);
        if (file != NULL) {
            (void)fclose(file);
        }
        return false;
    }
    size_t bytes = fread(text, 1, MAX_FILE, file);
    (void)fclose(file);
    bool done = chip_read(chip, text, bytes, machine, message, room);
    (void)snprintf(chip->error, sizeof chip->error, "not known: no card was compared with these parameters");
    free(text);
    return done;
}

ticks curve_at(const struct curve *curve, uint64_t x) {
    uint32_t i = 1;
    if (curve->count == 0 || x <= curve->x[0]) {
        return curve->count == 0 ? 0 : curve->y[0];
    }
    while (i + 1 < curve->count && x > curve->x[i]) {
        i++;
    }
    if (i >= curve->count) {
        return curve->y[0];
    }
    /* the last piece continues beyond the last point */
    int64_t rise = (int64_t)curve->y[i] - (int64_t)curve->y[i - 1];
    int64_t run = (int64_t)(curve->x[i] - curve->x[i - 1]);
    return (ticks)((int64_t)curve->y[i - 1] + rise * (int64_t)(x - curve->x[i - 1]) / run);
}
