/* Finds the fat binaries in a file (image.h). */
#include "image.h"

#include <elf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fatbin.h"

/* A range of the file; at: NULL if it is not inside. */
struct part {
    const char *at;
    size_t bytes;
};

static struct part part_of(struct part file, uint64_t offset, uint64_t bytes) {
    bool inside = offset <= file.bytes && bytes <= file.bytes - offset;
    return inside ? (struct part){file.at + offset, (size_t)bytes} : (struct part){.at = NULL};
}

static bool name_is(struct part names, uint32_t at, const char *name) {
    size_t bytes = strlen(name) + 1;
    return at < names.bytes && bytes <= names.bytes - at && memcmp(names.at + at, name, bytes) == 0;
}

/* The section of an ELF file in which nvcc puts fat binaries; at: NULL without one. */
static struct part fat_section(struct part file) {
    struct part none = {.at = NULL};
    Elf64_Ehdr header;
    if (file.bytes < sizeof header) {
        return none;
    }
    memcpy(&header, file.at, sizeof header);
    struct part table = part_of(file, header.e_shoff, (uint64_t)header.e_shnum * sizeof(Elf64_Shdr));
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_shentsize != sizeof(Elf64_Shdr) ||
        table.at == NULL || header.e_shstrndx >= header.e_shnum) {
        return none;
    }
    Elf64_Shdr section;
    memcpy(&section, table.at + header.e_shstrndx * sizeof section, sizeof section);
    struct part names = part_of(file, section.sh_offset, section.sh_size);
    for (uint32_t i = 0; names.at != NULL && i < header.e_shnum; i++) {
        memcpy(&section, table.at + i * sizeof section, sizeof section);
        if (section.sh_type != SHT_NOBITS && name_is(names, section.sh_name, ".nv_fatbin")) {
            return part_of(file, section.sh_offset, section.sh_size);
        }
    }
    return none;
}

const char *image_ptx(const void *file, size_t file_bytes, size_t index, unsigned arch, size_t *count,
                      size_t *bytes, char **unpacked, const char **why) {
    struct part left = {file, file_bytes};
    const char *found = NULL;
    *count = 0;
    *unpacked = NULL;
    *why = "it holds no fat binary";
    if (file_bytes >= SELFMAG && memcmp(file, ELFMAG, SELFMAG) == 0) {
        left = fat_section(left);
    } else if (!fatbin_is(left.at, left.bytes)) {
        *count = 1;
        *bytes = file_bytes;
        return index == 0 ? file : NULL;
    }
    while (left.at != NULL && left.bytes > 0) {
        size_t whole = fatbin_bytes(left.at, left.bytes);
        if (whole == 0) { /* skip padding between two */
            left.at++;
            left.bytes--;
            continue;
        }
        if ((*count)++ == index) {
            found = fatbin_ptx(left.at, arch, bytes, unpacked, why);
        }
        left.at += whole;
        left.bytes -= whole;
    }
    return found;
}

void image_free(char *unpacked) {
    free(unpacked);
}
