/* Finds out from the ELF file of a program whether its CUDA runtime can be replaced. */
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "run_status.h"

struct file {
    const uint8_t *at;
    size_t bytes;
};

/* A range of the file; NULL if it is not inside. */
static const void *part(const struct file *file, uint64_t offset, uint64_t bytes) {
    return offset <= file->bytes && bytes <= file->bytes - offset ? file->at + offset : NULL;
}

static bool name_is(const struct file *file, const Elf64_Shdr *names, uint64_t at, const char *name,
                    bool prefix) {
    size_t bytes = strlen(name) + !prefix;
    const char *text = at > names->sh_size ? NULL : part(file, names->sh_offset + at, bytes);
    return text != NULL && memcmp(text, name, bytes) == 0;
}

static enum cli_linkage linkage(const struct file *file) {
    const Elf64_Ehdr *header = part(file, 0, sizeof *header);
    if (header == NULL || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_shentsize != sizeof(Elf64_Shdr)) {
        return LINKED_OTHER;
    }
    const Elf64_Shdr *sections = part(file, header->e_shoff, header->e_shnum * sizeof *sections);
    if (sections == NULL || header->e_shoff % _Alignof(Elf64_Shdr) != 0 ||
        header->e_shstrndx >= header->e_shnum) {
        return LINKED_OTHER;
    }
    static const char *const libraries[] = {"libcudart.so", "libcuda.so", "libptxsim_cuda.so"};
    bool kernels = false, shared = false;
    for (uint32_t i = 0; i < header->e_shnum; i++) {
        const Elf64_Shdr *section = &sections[i];
        kernels |= name_is(file, &sections[header->e_shstrndx], section->sh_name, ".nv_fatbin", false);
        const Elf64_Dyn *needs =
            section->sh_type == SHT_DYNAMIC ? part(file, section->sh_offset, section->sh_size) : NULL;
        for (size_t j = 0;
             needs != NULL && section->sh_link < header->e_shnum && j < section->sh_size / sizeof *needs; j++) {
            const Elf64_Shdr *names = &sections[section->sh_link];
            for (size_t k = 0; k < sizeof libraries / sizeof *libraries; k++) {
                shared |= needs[j].d_tag == DT_NEEDED &&
                          name_is(file, names, needs[j].d_un.d_val, libraries[k], true);
            }
        }
    }
    if (memmem(file->at, file->bytes, RUN_MARK, sizeof RUN_MARK - 1) != NULL) {
        return LINKED_WITH_US;
    }
    return shared ? LINKED_SHARED : kernels ? LINKED_STATIC : LINKED_OTHER;
}

enum cli_linkage cli_linkage_of(const char *path) {
    struct stat found;
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    enum cli_linkage linked = LINKED_OTHER;
    if (descriptor >= 0 && fstat(descriptor, &found) == 0 && found.st_size > 0) {
        struct file file = {.bytes = (size_t)found.st_size};
        void *memory = mmap(NULL, file.bytes, PROT_READ, MAP_PRIVATE, descriptor, 0);
        if (memory != MAP_FAILED) {
            file.at = memory;
            linked = linkage(&file);
            (void)munmap(memory, file.bytes);
        }
    }
    if (descriptor >= 0) {
        (void)close(descriptor);
    }
    return linked;
}
