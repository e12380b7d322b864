/* Mutations of PTX text that repeat declarations, functions and modifiers thousands of times under new names.
 * Only such texts make sums of sizes overflow, and mutations of single bytes never produce them. */
#include "grammar.h"

#include <ctype.h>
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define MAX_LINES (1 << 16)
#define MAX_LINE  4096
#define NAME_ROOM 96

static char **lines;
static size_t nlines;
static uint64_t state;

static uint64_t draw(uint64_t below) {
    state ^= state >> 12; /* xorshift64* (Vigna 2016) */
    state ^= state << 25;
    state ^= state >> 27;
    return (state * 0x2545f4914f6cdd1du >> 8) % below;
}

void grammar_read_lines(const char *folder) {
    static char line[MAX_LINE];
    DIR *entries = opendir(folder);
    lines = lines == NULL ? calloc(MAX_LINES, sizeof *lines) : lines;
    for (struct dirent *entry; entries != NULL && lines != NULL && (entry = readdir(entries)) != NULL;) {
        char path[4096];
        size_t length = strlen(entry->d_name);
        if (length < 4 || strcmp(entry->d_name + length - 4, ".ptx") != 0) {
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        FILE *file = fopen(path, "r");
        while (file != NULL && nlines < MAX_LINES && fgets(line, sizeof line, file) != NULL) {
            lines[nlines] = strdup(line);
            nlines += lines[nlines] != NULL;
        }
        if (file != NULL) {
            (void)fclose(file);
        }
    }
    if (entries != NULL) {
        (void)closedir(entries);
    }
}

/* ---- parts of a text ---- */

struct text {
    char *at;
    size_t size, room;
};

/* Replaces `gone` bytes at `at` by `bytes`; false if there is no room. */
static bool put(struct text *text, size_t at, size_t gone, const char *bytes, size_t count) {
    if (text->size - gone + count > text->room) {
        return false;
    }
    memmove(text->at + at + count, text->at + at + gone, text->size - at - gone);
    memcpy(text->at + at, bytes, count);
    text->size += count - gone;
    return true;
}

static size_t line_start(const struct text *text, size_t at) {
    while (at > 0 && text->at[at - 1] != '\n') {
        at--;
    }
    return at;
}

/* The position after the line's newline. */
static size_t line_end(const struct text *text, size_t at) {
    while (at < text->size && text->at[at++] != '\n') {
    }
    return at;
}

static size_t find(const struct text *text, size_t from, const char *word) {
    const char *found =
        from < text->size ? memmem(text->at + from, text->size - from, word, strlen(word)) : NULL;
    return found == NULL ? text->size : (size_t)(found - text->at);
}

/* A random position of a word; the text's end if there is none. */
static size_t find_any(const struct text *text, const char *word) {
    size_t at = find(text, draw(text->size), word);
    return at < text->size ? at : find(text, 0, word);
}

static bool name_letter(char c) {
    return isalnum((unsigned char)c) || c == '_' || c == '$';
}

/* The name that a declaration or function line declares: its last word, before any [..], <..> or (..). */
static size_t name_of(const char *line, size_t size, char name[NAME_ROOM]) {
    size_t end = 0, start;
    while (end < size && strchr("[<(;=\n", line[end]) == NULL) {
        end++;
    }
    while (end > 0 && !name_letter(line[end - 1])) {
        end--;
    }
    for (start = end; start > 0 && name_letter(line[start - 1]); start--) {
    }
    if (end == start || end - start >= NAME_ROOM - 24) {
        return 0;
    }
    memcpy(name, line + start, end - start);
    name[end - start] = '\0';
    return end - start;
}

/* ---- mutations ---- */

static const char *const numbers[] = {"0",
                                      "1",
                                      "2",
                                      "3",
                                      "4",
                                      "7",
                                      "8",
                                      "15",
                                      "16",
                                      "31",
                                      "32",
                                      "63",
                                      "64",
                                      "127",
                                      "128",
                                      "255",
                                      "256",
                                      "1023",
                                      "4095",
                                      "4096",
                                      "65535",
                                      "65536",
                                      "199999",
                                      "200000",
                                      "200001",
                                      "1048575",
                                      "1048576",
                                      "1073741824",
                                      "2147483647",
                                      "2147483648",
                                      "4294967295",
                                      "4294967296",
                                      "-1",
                                      "0xffffff",
                                      "9223372036854775807",
                                      "18446744073709551615",
                                      "0f7FC00000",
                                      "0f7F800000"};
static const uint64_t counts[] = {2, 3, 8, 15, 16, 17, 32, 64, 256, 1024, 5400, 6000};

enum { MODEST = 8, ALL_COUNTS = sizeof counts / sizeof *counts };

#define PICK(list) (list)[draw(sizeof(list) / sizeof *(list))]

/* Replaces the next number from `at` on. */
static void change_number(struct text *text, size_t at) {
    while (at < text->size && !isdigit((unsigned char)text->at[at])) {
        at++;
    }
    size_t end = at;
    while (end < text->size && isdigit((unsigned char)text->at[end])) {
        end++;
    }
    const char *number = PICK(numbers);
    if (end > at) {
        (void)put(text, at, end - at, number, strlen(number));
    }
}

static void splice_line(struct text *text) {
    if (nlines > 0) {
        size_t at = line_start(text, draw(text->size)), gone = draw(3) ? 0 : line_end(text, at) - at;
        const char *line = lines[draw(nlines)];
        (void)put(text, at, gone, line, strlen(line));
    }
}

/* Repeats a modifier, an extent or an operand many times. */
static void repeat_word(struct text *text) {
    static const char *const openings[] = {".v4", ".v4", ".v4", ".v2", "[", ".align", ".", "%", ","};
    const uint64_t wraps = 16; /* as many .v4 as overflow 32 bits: 4^16 has 33 */
    char word[64];
    size_t at = find_any(text, PICK(openings)), end = at + 1, room = sizeof word - 1;
    while (end < text->size && end - at < room && (name_letter(text->at[end]) || text->at[end] == ']')) {
        end++;
    }
    if (at >= text->size) {
        return;
    }
    size_t length = end - at;
    memcpy(word, text->at + at, length);
    bool spaced = word[0] == '.';
    word[length] = ' ';
    uint64_t left = draw(2) ? wraps : counts[draw(MODEST)];
    for (; left > 0 && put(text, at, 0, word, length + spaced); left--) {
    }
    if (word[0] == '[' && draw(2)) { /* extents, mostly large ones */
        for (uint64_t changes = draw(6); changes > 0; changes--) {
            change_number(text, at);
            at = find(text, at + 1, "[");
        }
    }
}

/* Inserts a statement that uses a declared register, so that its memory is accessed. */
static size_t use_of(const char *type, const char *name, const char *index, char *to, size_t room) {
    static const struct {
        const char *type, *form;
    } forms[] = {{".pred", "setp.eq.u32 %%%s%s, 0, 0;\n"},
                 {".b32", "mov.b32 %%%s%s, 1;\n"},
                 {".b64", "mov.b64 %%%s%s, 1;\n"},
                 {".f32", "mov.f32 %%%s%s, 0f3f800000;\n"},
                 {".b128", "{ .reg .b64 %%use; mov.b64 %%use, 7; mov.b128 %%%s%s, {%%use, %%use}; }\n"}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        if (strcmp(type, forms[i].type) == 0) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
            return (size_t)snprintf(to, room, forms[i].form, name, index);
#pragma GCC diagnostic pop
        }
    }
    return 0;
}

/* Inserts a copy of the lines text[from, to) after them, in which names that start with `name` continue with _
 * and the copy's number. Returns its length; 0: no room. */
static size_t copy_renamed(struct text *text, size_t from, size_t to, const char *name, uint64_t number) {
    char fresh[NAME_ROOM];
    size_t length = strlen(name), bytes = to - from;
    char *copy = malloc(2 * bytes + 32 * (bytes / (length + 1) + 1));
    size_t used = 0;
    int extra = snprintf(fresh, sizeof fresh, "%s_%llu_", name, (unsigned long long)number);
    for (size_t at = from; copy != NULL && at < to;) {
        bool here = to - at >= length && memcmp(text->at + at, name, length) == 0 &&
                    (at == 0 || (!name_letter(text->at[at - 1]) && text->at[at - 1] != '.')) &&
                    (at + length == to || !isalpha((unsigned char)text->at[at + length]));
        if (here && extra > 0) {
            memcpy(copy + used, fresh, (size_t)extra);
            used += (size_t)extra;
            at += length;
        } else {
            copy[used++] = text->at[at++];
        }
    }
    bool done = copy != NULL && put(text, to, 0, copy, used);
    free(copy);
    return done ? used : 0;
}

/* Repeats a declaration many times under different names; registers in the largest number that one may
 * have. */
static void repeat_declaration(struct text *text) {
    static const char *const kinds[] = {".reg", ".reg", ".local", ".shared", ".global", ".const"};
    char name[NAME_ROOM], type[16] = "", use[160];
    size_t at = find_any(text, PICK(kinds));
    if (at >= text->size) {
        return;
    }
    bool most = draw(2); /* enough that their bytes overflow 32 bits */
    const char *number = most ? "200000" : PICK(numbers);
    bool reg = memcmp(text->at + at, ".reg", 4) == 0;
    const char *semicolon = memchr(text->at + at, ';', text->size - at);
    if (semicolon == NULL) {
        return;
    }
    size_t end = (size_t)(semicolon - text->at) + 1;
    const char *many = memchr(text->at + at, '<', end - at);
    if (reg && many != NULL) { /* the number, before it is repeated */
        size_t from = (size_t)(many - text->at) + 1;
        const char *close = memchr(many, '>', text->size - from);
        if (close == NULL || !put(text, from, (size_t)(close - many) - 1, number, strlen(number))) {
            return;
        }
        end = (size_t)((const char *)memchr(text->at + at, ';', text->size - at) - text->at) + 1;
        (void)sscanf(text->at + at, ".reg %15s", type);
    }
    if (name_of(text->at + at, end - at, name) == 0) {
        return;
    }
    uint64_t count = most && draw(2) ? 5400 : counts[draw(draw(3) ? MODEST : ALL_COUNTS)], before = draw(count);
    size_t to = end;
    for (uint64_t i = 0; i < count; i++) {
        size_t grown = copy_renamed(text, at, end, name, i);
        if (grown == 0) {
            break;
        }
        to += grown;
    }
    if (type[0] != '\0') {
        char fresh[2 * NAME_ROOM], index[24];
        (void)snprintf(fresh, sizeof fresh, "%s_%llu_", name, (unsigned long long)before);
        (void)snprintf(index, sizeof index, "%llu", strtoull(number, NULL, 0) - 1);
        size_t used = use_of(type, fresh, index, use, sizeof use), where = find(text, to, "ret;");
        if (used > 0 && used < sizeof use && where < text->size) {
            (void)put(text, where, 0, use, used);
        }
    }
}

/* Repeats a function and its call many times. */
static void repeat_function(struct text *text) {
    char name[NAME_ROOM], call[2 * NAME_ROOM];
    size_t at = find_any(text, ".func"), end = find(text, at, "\n}\n");
    if (at >= text->size || end >= text->size || name_of(text->at + at, end - at, name) == 0) {
        return;
    }
    end += 3;
    at = line_start(text, at);
    bool most = draw(2); /* so many registers that those of 43 functions overflow 32 bits */
    size_t size = text->size;
    if (most) {
        size_t many = find(text, find(text, at, ".b128"), "<"), close = find(text, many, ">");
        if (close < end) {
            (void)put(text, many + 1, close - many - 1, "200000", strlen("200000"));
        }
    } else if (draw(2)) {
        change_number(text, find(text, at, "<"));
    }
    end += text->size - size;
    for (uint64_t i = most && draw(2) ? 43 : counts[draw(MODEST + 1)]; i > 0; i--) {
        if (copy_renamed(text, at, end, name, i) == 0) {
            break;
        }
        int used = snprintf(call, sizeof call, "call.uni %s_%llu_, ();\n", name, (unsigned long long)i);
        size_t where = find(text, find(text, 0, ".entry"), "ret;");
        if (used <= 0 || where >= text->size || !put(text, where, 0, call, (size_t)used)) {
            break;
        }
    }
}

size_t grammar_mutate(char *at, size_t size, size_t room, unsigned seed) {
    struct text text = {at, size, room};
    state = (seed + 1u) * 0x9e3779b97f4a7c15u | 1;
    if (size == 0) {
        splice_line(&text);
        return text.size > 0 ? text.size : LLVMFuzzerMutate((uint8_t *)at, size, room);
    }
    switch (draw(11)) {
    case 0:
    case 1:
    case 2:
        splice_line(&text);
        break;
    case 3:
    case 4:
        change_number(&text, draw(size));
        break;
    case 5:
        repeat_word(&text);
        break;
    case 6:
    case 7:
        repeat_declaration(&text);
        break;
    case 8:
        repeat_function(&text);
        break;
    default:
        return LLVMFuzzerMutate((uint8_t *)at, size, room);
    }
    return text.size;
}
