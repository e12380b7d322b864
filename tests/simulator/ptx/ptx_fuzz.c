/* Feeds the parser, and the machine with what still parses, mutations of PTX files.
 * usage: ptx_fuzz SECONDS SEED FILE...; prints how many texts were tried, parsed and run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../../simulator/isa/opcodes.h"
#include "../../../simulator/ptx/ir.h"
#include "../../../simulator/sim.h"

#define MAX_FILES 64
#define MAX_TEXT  (1 << 17)

static uint64_t state;

static uint64_t draw(uint64_t below) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % below;
}

static struct {
    char *text;
    size_t bytes;
} files[MAX_FILES];
static int nfiles;

static bool read_corpus(const char *name) {
    FILE *file = fopen(name, "rb");
    char *text = malloc(MAX_TEXT);
    if (file == NULL || text == NULL || nfiles == MAX_FILES) {
        return false;
    }
    files[nfiles].bytes = fread(text, 1, MAX_TEXT / 2, file);
    files[nfiles++].text = text;
    (void)fclose(file);
    return true;
}

/* A line of some file takes the place of one, or comes before it. */
static size_t splice_line(char *text, size_t bytes) {
    int from = (int)draw((uint64_t)nfiles);
    size_t at = draw(files[from].bytes), end = at;
    while (at > 0 && files[from].text[at - 1] != '\n') {
        at--;
    }
    while (end < files[from].bytes && files[from].text[end] != '\n') {
        end++;
    }
    size_t length = end - at, to = draw(bytes);
    while (to > 0 && text[to - 1] != '\n') {
        to--;
    }
    if (bytes + length + 1 >= MAX_TEXT) {
        return bytes;
    }
    memmove(text + to + length + 1, text + to, bytes - to);
    memcpy(text + to, files[from].text + at, length);
    text[to + length] = '\n';
    return bytes + length + 1;
}

static size_t mutate(char *text, size_t bytes) {
    static const char letters[] = "%.,;:{}[]()<>@!+-|_ \n0123456789abcdefrpxsuvEFR\"\\/*";
    static const char *const words[] = {
        ".reg", "4294967295", "-1",        "0x7fffffffffffffff", ".b64",        ".v4",       "%r1",
        "%rd1", ".shared",    "<1000000>", "[1048576]",          ".align 4096", "0f7fffffff"};
    size_t at = draw(bytes), length;
    switch (draw(8)) {
    case 0:
        text[at] = (char)draw(256);
        return bytes;
    case 1:
        text[at] = letters[draw(sizeof letters - 1)];
        return bytes;
    case 2: /* cut a piece */
        length = draw(40) + 1;
        length = length > bytes - at ? bytes - at : length;
        memmove(text + at, text + at + length, bytes - at - length);
        return bytes - length;
    case 3: { /* put a word */
        const char *word = words[draw(sizeof words / sizeof *words)];
        length = strlen(word);
        if (bytes + length >= MAX_TEXT) {
            return bytes;
        }
        memmove(text + at + length, text + at, bytes - at);
        memcpy(text + at, word, length);
        return bytes + length;
    }
    case 4: /* the end is missing */
        return draw(20) == 0 ? at : bytes;
    default:
        return splice_line(text, bytes);
    }
}

static bool run_kernel(const char *text, size_t bytes) {
    struct sim_options options = {
        .mode = (enum sim_mode)draw(5), .seed = state, .threads = 1, .max_instructions = 3000};
    struct sim *sim = sim_create(&options);
    struct sim_module *module = sim == NULL ? NULL : sim_load(sim, text, bytes);
    const char *name = module == NULL ? NULL : sim_kernel_name(module, 0);
    if (name != NULL) {
        static uint64_t cells[64][16];
        void *arguments[64], *memory = sim_alloc(sim, 4096, "memory");
        int count = sim_parameter_count(module, name);
        for (int i = 0; i < 64; i++) {
            memset(cells[i], 0, sizeof cells[i]);
            memcpy(&cells[i][0], &memory, sizeof memory);
            arguments[i] = cells[i];
        }
        bool small = count <= 64;
        for (int i = 0; small && i < count; i++) {
            small = sim_parameter_bytes(module, name, i) <= sizeof cells[0];
        }
        struct sim_launch_attributes launch = {.grid = {2, 1, 1},
                                               .block = {64, 1, 1},
                                               .dynamic_shared_bytes = 4096,
                                               .arguments = arguments,
                                               .argument_count = (size_t)count};
        if (small) {
            (void)sim_launch(sim, module, name, &launch);
        }
    }
    sim_destroy(sim);
    return name != NULL;
}

int main(int argc, char **argv) {
    if (argc < 4) {
        (void)fprintf(stderr, "usage: ptx_fuzz SECONDS SEED FILE...\n");
        return 2;
    }
    for (int i = 3; i < argc; i++) {
        if (!read_corpus(argv[i])) {
            (void)fprintf(stderr, "cannot read %s\n", argv[i]);
            return 2;
        }
    }
    double limit = strtod(argv[1], NULL);
    uint64_t seed = strtoull(argv[2], NULL, 0), tried = 0, parsed = 0;
    static char text[MAX_TEXT];
    struct timespec begin, now;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    (void)freopen("/dev/null", "w", stdout); /* kernels may print */
    do {
        state = (seed + tried) * 0x9e3779b97f4a7c15u | 1;
        int file = (int)draw((uint64_t)nfiles);
        size_t bytes = files[file].bytes;
        memcpy(text, files[file].text, bytes);
        for (uint64_t left = draw(6) + 1; left > 0 && bytes > 1; left--) {
            bytes = mutate(text, bytes);
        }
        if (getenv("PTX_FUZZ_KEEP") != NULL) { /* to have the text that crashes */
            FILE *keep = fopen(getenv("PTX_FUZZ_KEEP"), "wb");
            if (keep != NULL) {
                (void)fwrite(text, 1, bytes, keep);
                (void)fclose(keep);
            }
        }
        char message[400] = "";
        bool no_memory;
        struct module *module = ptx_parse(text, bytes, isa_opcodes, message, sizeof message, &no_memory);
        if (module == NULL && strncmp(message, "line ", 5) != 0) {
            (void)fprintf(stderr, "an error without a line: '%s'\n", message);
            return 1;
        }
        ptx_free(module);
        parsed += module != NULL && run_kernel(text, bytes);
        tried++;
        (void)clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)(now.tv_sec - begin.tv_sec) + (double)(now.tv_nsec - begin.tv_nsec) * 1e-9 < limit);
    (void)fprintf(stderr, "%llu texts, %llu parsed and run\n", (unsigned long long)tried,
                  (unsigned long long)parsed);
    return 0;
}
