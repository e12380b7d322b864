/* The built-in vprintf: format string and packed arguments are in device memory. */
#include <stdio.h>

#include "isa/opcodes.h"
#include "machine/machine.h"
#include "warp.h"

#define MAX_TEXT 4096

/* Copies a string from device memory; false after a report. */
static bool read_string(struct run *run, uint64_t address, int lane, char *to, size_t room) {
    size_t i = 0;
    for (; i + 1 < room; i++) {
        struct cta *cta;
        uint32_t offset;
        const uint8_t *at = generic_memory(run, address + i, 1, lane, false, &cta, &offset);
        if (at == NULL) {
            return false;
        }
        to[i] = (char)*at;
        if (*at == 0) {
            return true;
        }
    }
    to[i] = '\0';
    return true;
}

/* Reads the next variadic argument: 4 or 8 bytes, aligned to its size. */
static bool read_argument(struct run *run, uint64_t base, uint64_t *offset, uint32_t bytes, int lane,
                          uint64_t *value) {
    struct cta *cta;
    uint32_t at;
    *offset = (*offset + bytes - 1) / bytes * bytes;
    const uint8_t *from = generic_memory(run, base + *offset, bytes, lane, false, &cta, &at);
    if (from == NULL) {
        return false;
    }
    *value = 0;
    memcpy(value, from, bytes);
    *offset += bytes;
    return true;
}

static bool print_one(struct run *run, int lane, const char *spec, size_t length, uint64_t base,
                      uint64_t *offset, char *out, size_t room) {
    char format[64], text[512];
    uint64_t bits;
    double real;
    char kind = spec[length - 1];
    bool wide = memchr(spec, 'l', length) != NULL || memchr(spec, 'z', length) != NULL || kind == 'p';
    if (length >= 48) {
        return false;
    }
    /* The conversion without its length modifiers; integers are passed as long long. */
    size_t used = 0;
    for (size_t i = 0; i + 1 < length; i++) {
        if (strchr("lhzjt", spec[i]) == NULL) {
            format[used++] = spec[i];
        }
        if (i == 0 && kind == 'p') {
            format[used++] = '#'; /* pointers print as 0x... */
        }
    }
    if (strchr("eEfFgGaA", kind) != NULL) {
        format[used++] = kind;
        format[used] = '\0';
        if (!read_argument(run, base, offset, 8, lane, &bits)) {
            return false;
        }
        memcpy(&real, &bits, 8);
        (void)snprintf(out, room, format, real);
        return true;
    }
    if (kind == 's') {
        format[used++] = 's';
        format[used] = '\0';
        if (!read_argument(run, base, offset, 8, lane, &bits) ||
            !read_string(run, bits, lane, text, sizeof text)) {
            return false;
        }
        (void)snprintf(out, room, format, text);
        return true;
    }
    if (kind == 'c') {
        if (!read_argument(run, base, offset, 4, lane, &bits)) {
            return false;
        }
        (void)snprintf(out, room, "%c", (int)bits);
        return true;
    }
    if (strchr("diuxXop", kind) == NULL) {
        return false;
    }
    if (!read_argument(run, base, offset, wide ? 8 : 4, lane, &bits)) {
        return false;
    }
    bool sign = kind == 'd' || kind == 'i';
    long long value = sign && !wide ? (long long)(int32_t)bits : (long long)bits;
    memcpy(format + used, "ll", 2);
    format[used + 2] = kind == 'p' ? 'x' : kind;
    format[used + 3] = '\0';
    (void)snprintf(out, room, format, value);
    return true;
}

enum next exec_vprintf(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct call_info *call = insn->control.call;
    uint32_t frame = run->split->local_base;
    if (call->nin != 2 || call->in[0].bytes != 8 || call->in[1].bytes != 8) {
        return sim_report(run, SIM_INCOMPLETE, "vprintf", -1, "vprintf with %u parameters", call->nin);
    }
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        const uint8_t *local = run->warp->local + (size_t)lane * run->launch->local_bytes + frame;
        uint64_t format_at, arguments, offset = 0;
        char format[MAX_TEXT], out[MAX_TEXT];
        size_t used = 0;
        memcpy(&format_at, local + call->in[0].caller, 8);
        memcpy(&arguments, local + call->in[1].caller, 8);
        if (!read_string(run, format_at, lane, format, sizeof format)) {
            return FAIL;
        }
        for (const char *at = format; *at != '\0' && used + 600 < sizeof out;) {
            if (*at != '%' || at[1] == '%') {
                out[used++] = *at;
                at += *at == '%' ? 2 : 1;
                continue;
            }
            size_t length = 1 + strspn(at + 1, "-+ #0123456789.*lhzjt");
            length += at[length] != '\0';
            out[used] = '\0';
            if (!print_one(run, lane, at, length, arguments, &offset, out + used, 560)) {
                if (run->cluster->failed) {
                    return FAIL;
                }
                (void)snprintf(out + used, 560, "<%.*s?>", (int)length, at);
            }
            used += strlen(out + used);
            at += length;
        }
        out[used] = '\0';
        if (run->launch->schedule == NULL) { /* repeated runs of a search must not print again */
            (void)fputs(out, stdout);
        }
    }
    if (call->nout > 0) {
        FOR_LANES(rest, mask) {
            const int32_t one = 1;
            memcpy(run->warp->local + (size_t)LANE(rest) * run->launch->local_bytes + frame +
                       call->out[0].caller,
                   &one, 4);
        }
    }
    return NEXT;
}
