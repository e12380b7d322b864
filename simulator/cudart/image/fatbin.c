/* Reads the PTX of a fat binary (fatbin.h). */
#include "fatbin.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define FATBIN_MAGIC 0xba55ed50u
#define ENTRY_PTX    1
#define FLAG_LZ4     0x2000u
#define FLAG_ZSTD    0x8000u
#define MAX_PTX      ((uint64_t)1 << 30) /* limit of the unpacked size; a larger one is taken for corrupt */

struct fat_header { /* the entries follow it */
    uint32_t magic;
    uint16_t version, header_bytes;
    uint64_t bytes;
};

struct fat_entry {
    uint16_t kind, version;
    uint32_t header_bytes;
    uint64_t bytes;
    uint32_t packed_bytes, options_at; /* packed_bytes: `bytes` without the padding */
    uint16_t minor, major;
    uint32_t arch, name_at, name_bytes;
    uint64_t flags, reserved, unpacked_bytes;
};

/* The smallest header of an entry; the last two members follow only if the entry is packed. */
#define ENTRY_BYTES offsetof(struct fat_entry, reserved)

/* Reads the entry at *at and advances it; false at the end, or if the entry is longer than the rest (*why). */
static bool next_entry(const char **at, uint64_t *left, struct fat_entry *entry, const char **content,
                       const char **why) {
    if (*left < ENTRY_BYTES) {
        return false;
    }
    memset(entry, 0, sizeof *entry);
    memcpy(entry, *at, *left < sizeof *entry ? *left : sizeof *entry);
    if (entry->header_bytes < ENTRY_BYTES || entry->header_bytes > *left ||
        entry->bytes > *left - entry->header_bytes) {
        *why = "an entry of its fat binary is longer than that";
        return false;
    }
    if (entry->header_bytes < sizeof *entry) {
        entry->unpacked_bytes = 0;
    }
    *content = *at + entry->header_bytes;
    *at += entry->header_bytes + entry->bytes;
    *left -= entry->header_bytes + entry->bytes;
    return true;
}

static bool open_fatbin(const void *fatbin, const char **at, uint64_t *left) {
    struct fat_header header;
    memcpy(&header.magic, fatbin, sizeof header.magic);
    if (header.magic != FATBIN_MAGIC) {
        return false;
    }
    memcpy(&header, fatbin, sizeof header);
    *at = (const char *)fatbin + header.header_bytes;
    *left = header.bytes;
    return true;
}

/* Plain PTX text, which callers of the driver may pass; NULL with *why if it is not PTX. */
static const char *plain_text(const char *data, size_t *bytes, const char **why) {
    const char *text = data + strspn(data, " \t\r\n");
    if (memcmp(data, "\177ELF", 4) == 0) {
        *why = "it is machine code (a cubin); the simulator runs PTX: pass the kernel's PTX";
        return NULL;
    }
    *why = "it is neither a fat binary nor PTX";
    *bytes = strlen(text);
    return *text == '.' || *text == '/' ? text : NULL; /* a directive, or a comment */
}

/* ---- compression ---- */

/* Adds the remaining bytes of a length whose first four bits were 15; false at the end of the input. */
static bool lz4_length(const uint8_t **at, const uint8_t *end, size_t *length) {
    uint8_t more = 255;
    while (more == 255) {
        if (*at == end) {
            return false;
        }
        more = *(*at)++;
        *length += more;
    }
    return true;
}

/* Unpacks an LZ4 block (lz4_Block_format.md): pairs of literals and a copy from earlier output. */
static bool lz4_unpack(const uint8_t *at, size_t bytes, uint8_t *to, size_t room) {
    const uint8_t *end = at + bytes;
    const size_t shortest_match = 4;
    size_t used = 0;
    while (at < end) {
        size_t literals = *at >> 4, match = *at & 15;
        at++;
        if ((literals == 15 && !lz4_length(&at, end, &literals)) || literals > (size_t)(end - at) ||
            literals > room - used) {
            return false;
        }
        memcpy(to + used, at, literals);
        used += literals;
        at += literals;
        if (at == end) {
            break;
        }
        if (end - at < 2) {
            return false;
        }
        size_t back = at[0] | (size_t)at[1] << 8;
        at += 2;
        if (back == 0 || back > used || (match == 15 && !lz4_length(&at, end, &match)) ||
            match + shortest_match > room - used) {
            return false;
        }
        for (size_t left = match + shortest_match; left > 0; left--, used++) {
            to[used] = to[used - back];
        }
    }
    return used == room;
}

typedef size_t (*zstd_decompress)(void *to, size_t room, const void *from, size_t bytes);

/* Unpacks with the system's libzstd, loaded at the first use; false with *why. */
static bool zstd_unpack(const char *from, size_t bytes, char *to, size_t room, const char **why) {
    void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library == NULL ? NULL : dlsym(library, "ZSTD_decompress");
    zstd_decompress decompress;
    if (symbol == NULL) {
        *why = "its PTX is compressed with zstd, and libzstd.so.1 is missing: install it, or compile with "
               "--no-compress";
        return false;
    }
    memcpy(&decompress, &symbol, sizeof decompress); /* ISO C has no cast from object to function pointer */
    return decompress(to, room, from, bytes) == room;
}

static const char *unpack(const struct fat_entry *entry, const char *content, size_t *bytes, char **unpacked,
                          const char **why) {
    *why = "its PTX is compressed in an unknown way: compile with --no-compress";
    if (entry->unpacked_bytes == 0 || entry->unpacked_bytes > MAX_PTX || entry->packed_bytes > entry->bytes) {
        return NULL;
    }
    size_t room = (size_t)entry->unpacked_bytes;
    char *to = malloc(room);
    if (to == NULL) {
        *why = "out of memory";
        return NULL;
    }
    bool done = entry->flags & FLAG_LZ4
                    ? lz4_unpack((const uint8_t *)content, entry->packed_bytes, (uint8_t *)to, room)
                    : zstd_unpack(content, entry->packed_bytes, to, room, why);
    if (!done) {
        free(to);
        return NULL;
    }
    *bytes = room;
    *unpacked = to;
    return to;
}

/* 2: the wanted target; 1: a target with the same major number; 0: another one. */
static int closeness(unsigned wanted, unsigned arch) {
    return arch == wanted ? 2 : arch / 10 == wanted / 10;
}

const char *fatbin_ptx(const void *fatbin, unsigned arch, size_t *bytes, char **unpacked, const char **why) {
    const char *at, *content, *chosen_content = NULL;
    uint64_t left;
    struct fat_entry entry, chosen = {.arch = 0};
    *unpacked = NULL;
    if (!open_fatbin(fatbin, &at, &left)) {
        return plain_text(fatbin, bytes, why);
    }
    *why = "it holds no PTX: compile with code=compute_90a, compute_100a or compute_120a";
    while (next_entry(&at, &left, &entry, &content, why)) {
        if (entry.kind == ENTRY_PTX &&
            (chosen_content == NULL || closeness(arch, entry.arch) > closeness(arch, chosen.arch))) {
            chosen = entry;
            chosen_content = content;
        }
    }
    if (chosen_content == NULL) {
        return NULL;
    }
    if (chosen.flags & (FLAG_LZ4 | FLAG_ZSTD)) {
        return unpack(&chosen, chosen_content, bytes, unpacked, why);
    }
    *bytes = chosen.bytes;
    return chosen_content;
}

bool fatbin_is(const void *fatbin, size_t bytes) {
    const uint32_t magic = FATBIN_MAGIC;
    return bytes >= sizeof magic && memcmp(fatbin, &magic, sizeof magic) == 0;
}

size_t fatbin_bytes(const void *fatbin, size_t bytes) {
    struct fat_header header;
    if (!fatbin_is(fatbin, bytes) || bytes < sizeof header) {
        return 0;
    }
    memcpy(&header, fatbin, sizeof header);
    bool whole = header.header_bytes >= sizeof header && header.header_bytes <= bytes &&
                 header.bytes <= bytes - header.header_bytes;
    return whole ? header.header_bytes + (size_t)header.bytes : 0;
}

bool fatbin_has_ptx(const void *fatbin, unsigned first, unsigned last) {
    const char *at, *content, *why;
    uint64_t left;
    struct fat_entry entry;
    if (!open_fatbin(fatbin, &at, &left)) {
        return false;
    }
    while (next_entry(&at, &left, &entry, &content, &why)) {
        if (entry.kind == ENTRY_PTX && entry.arch >= first && entry.arch <= last) {
            return true;
        }
    }
    return false;
}
