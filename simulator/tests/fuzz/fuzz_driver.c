/* Runs a fuzz target without libFuzzer, on mutations of a corpus that a seed determines.
 * usage: TARGET [-runs=N] [-max_total_time=SECONDS] [-seed=N] [-max_len=BYTES] [-artifact_prefix=PATH]
 * FOLDER... */
#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "fuzz.h"

#define MAX_UNITS 1024

extern __attribute__((weak)) int LLVMFuzzerInitialize(int *argc, char ***argv);
extern __attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room,
                                                            unsigned seed);

static uint64_t state;

static uint64_t draw(uint64_t below) {
    state ^= state >> 12; /* xorshift64* (Vigna 2016) */
    state ^= state << 25;
    state ^= state >> 27;
    return (state * 0x2545f4914f6cdd1du >> 8) % below;
}

static struct unit {
    uint8_t *data;
    size_t size;
} units[MAX_UNITS];
static size_t nunits;
static struct settings {
    uint64_t runs, seed, room;
    double seconds;
    const char *keep;
} settings = {.runs = UINT64_MAX, .seed = 1, .room = 1 << 12, .seconds = 1e9};

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room) {
    static const uint64_t numbers[] = {0,          1,          0x7f,        0x80,     0xff,
                                       0x7fff,     0x8000,     65535,       65536,    0x7fffffff,
                                       0x80000000, 0xffffffff, 0x100000000, INT64_MAX};
    size_t at = size == 0 ? 0 : draw(size), length = 1 + draw(16);
    length = length > size - at ? size - at : length;
    switch (size == 0 ? 3 : draw(nunits == 0 ? 5 : 6)) {
    case 0:
        data[at] ^= (uint8_t)(1 << draw(8));
        return size;
    case 1:
        data[at] = (uint8_t)draw(256);
        return size;
    case 2: /* remove a piece */
        memmove(data + at, data + at + length, size - at - length);
        return size - length;
    case 3: /* insert bytes */
        length = 1 + draw(32);
        length = length > room - size ? room - size : length;
        memmove(data + at + length, data + at, size - at);
        for (size_t i = 0; i < length; i++) {
            data[at + i] = (uint8_t)draw(256);
        }
        return size + length;
    case 4: { /* overwrite with a number of 1 to 8 bytes */
        uint64_t number = numbers[draw(sizeof numbers / sizeof *numbers)];
        size_t bytes = (size_t)1 << draw(4);
        bytes = bytes > size - at ? size - at : bytes;
        memcpy(data + at, &number, bytes);
        return size;
    }
    default: { /* insert a piece of another input */
        const struct unit *from = &units[draw(nunits)];
        size_t there = from->size == 0 ? 0 : draw(from->size);
        length = length > from->size - there ? from->size - there : length;
        memcpy(data + at, from->data + there, length);
        return size;
    }
    }
}

static void add_unit(const char *folder, const char *name) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = nunits < MAX_UNITS ? fopen(path, "rb") : NULL;
    uint8_t *data = file == NULL ? NULL : malloc(settings.room);
    size_t size = data == NULL ? 0 : fread(data, 1, settings.room, file);
    if (size > 0) {
        units[nunits++] = (struct unit){data, size};
    } else {
        free(data);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

static bool add_folder(const char *name) {
    struct dirent **entries;
    int count = scandir(name, &entries, NULL, alphasort);
    if (count < 0) {
        (void)fprintf(stderr, "%s: %s\n", name, strerror(errno));
        return false;
    }
    for (int i = 0; i < count; i++) {
        const char *end = strrchr(entries[i]->d_name, '.');
        if (entries[i]->d_name[0] != '.' && (end == NULL || strcmp(end, ".py") != 0)) {
            add_unit(name, entries[i]->d_name);
        }
        free(entries[i]);
    }
    free(entries);
    return true;
}

static bool read_setting(const char *text) {
    char name[32];
    const char *value = strchr(text, '=');
    size_t length = value == NULL ? 0 : (size_t)(value - text);
    if (length == 0 || length >= sizeof name) {
        return false;
    }
    memcpy(name, text, length);
    name[length] = '\0';
    value++;
    bool known = true;
    if (strcmp(name, "-runs") == 0) {
        settings.runs = strtoull(value, NULL, 0);
    } else if (strcmp(name, "-seed") == 0) {
        settings.seed = strtoull(value, NULL, 0);
    } else if (strcmp(name, "-max_len") == 0) {
        settings.room = strtoull(value, NULL, 0);
    } else if (strcmp(name, "-max_total_time") == 0) {
        settings.seconds = strtod(value, NULL);
    } else if (strcmp(name, "-artifact_prefix") == 0) {
        settings.keep = value;
    } else {
        known = false;
    }
    return known;
}

/* Writes the current input to a file, so that the one that ends the process is kept. */
static void keep(const uint8_t *data, size_t size) {
    char path[4096];
    (void)snprintf(path, sizeof path, "%sinput", settings.keep);
    FILE *file = fopen(path, "wb");
    if (file != NULL) {
        (void)fwrite(data, 1, size, file);
        (void)fclose(file);
    }
}

static void run(const uint8_t *data, size_t size) {
    uint8_t *copy = malloc(size + 1); /* exactly its size, so that a sanitizer sees reads beyond it */
    uint8_t *exact = copy == NULL ? NULL : realloc(copy, size > 0 ? size : 1);
    if (exact == NULL) {
        exit(3);
    }
    memcpy(exact, data, size);
    if (settings.keep != NULL) {
        keep(data, size);
    }
    (void)LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static size_t mutate(uint8_t *data, size_t size) {
    for (uint64_t left = 1 + draw(6); left > 0; left--) {
        size = LLVMFuzzerCustomMutator != NULL
                   ? LLVMFuzzerCustomMutator(data, size, settings.room, (unsigned)draw(UINT32_MAX))
                   : LLVMFuzzerMutate(data, size, settings.room);
    }
    return size;
}

int main(int argc, char **argv) {
    bool right = true;
    for (int i = 1; i < argc && argv[i][0] == '-'; i++) {
        right &= read_setting(argv[i]);
    }
    for (int i = 1; i < argc; i++) {
        right &= argv[i][0] == '-' || add_folder(argv[i]);
    }
    if (!right) {
        (void)fputs("usage: TARGET [-runs=N] [-max_total_time=SECONDS] [-seed=N] [-max_len=BYTES] "
                    "[-artifact_prefix=PATH] FOLDER...\n",
                    stderr);
        return 2;
    }
    if (LLVMFuzzerInitialize != NULL) {
        (void)LLVMFuzzerInitialize(&argc, &argv);
    }
    for (size_t i = 0; i < nunits; i++) {
        run(units[i].data, units[i].size);
    }
    uint8_t *data = malloc(settings.room);
    struct timespec begin, now;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    uint64_t runs = 0;
    double seconds = 0;
    for (; data != NULL && runs < settings.runs && seconds < settings.seconds; runs++) {
        state = (settings.seed + runs) * 0x9e3779b97f4a7c15u | 1;
        const struct unit *unit = nunits == 0 ? NULL : &units[draw(nunits)];
        size_t size = unit == NULL ? 0 : unit->size;
        if (unit != NULL) {
            memcpy(data, unit->data, size);
        }
        size = mutate(data, size);
        run(data, size);
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
        seconds = (double)(now.tv_sec - begin.tv_sec) + (double)(now.tv_nsec - begin.tv_nsec) * 1e-9;
    }
    free(data);
    for (size_t i = 0; i < nunits; i++) {
        free(units[i].data);
    }
    (void)fprintf(stderr, "Done %llu runs in %.0f second(s)\n", (unsigned long long)runs, seconds);
    return 0;
}
