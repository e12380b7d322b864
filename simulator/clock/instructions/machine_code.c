/* Reads a module's machine code: a line for each instruction, written by simulator/python/machine_code. */
#include "machine_code.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ptx/arena.h"

#define HASH_START 0xcbf29ce484222325u /* FNV-1a, 64 bits */
#define HASH_PRIME 0x100000001b3u
#define PATH_ROOM  4096
#define LINE_ROOM  4096
#define FIRST_LINE "machine-code 4\n"

static uint64_t hash_of(const char *text, size_t bytes) {
    uint64_t hash = HASH_START;
    for (size_t i = 0; i < bytes; i++) {
        hash = (hash ^ (uint8_t)text[i]) * HASH_PRIME;
    }
    return hash;
}

/* Writes a temporary file and renames it, since several programs may write the same text at once. */
static void leave_text(const struct module *module, const char *path) {
    char part[PATH_ROOM + 16];
    (void)snprintf(part, sizeof part, "%s.XXXXXX", path);
    int made = mkstemp(part);
    FILE *file = made < 0 ? NULL : fdopen(made, "w");
    if (file == NULL) {
        return;
    }
    bool whole = fwrite(module->text, 1, module->text_bytes, file) == module->text_bytes;
    whole = fclose(file) == 0 && whole;
    if (!whole || rename(part, path) != 0) {
        (void)remove(part);
    }
}

/* ---- the file ---- */

struct reader {
    struct module *module;
    const struct chip *chip;
    const struct function *function; /* the function whose lines are read; NULL: not in the module */
    uint32_t pc;                     /* lines come in the order of the PTX */
};

static void begin_function(struct reader *reader, const char *name, uint32_t registers) {
    reader->function = NULL;
    for (uint32_t i = 0; i < reader->module->nfunctions; i++) {
        struct function *function = reader->module->functions[i];
        if (function->is_defined && strcmp(function->name, name) == 0) {
            function->registers = registers;
            reader->function = function;
            reader->pc = function->first_pc;
            for (uint32_t pc = function->first_pc; pc < function->end_pc; pc++) {
                reader->module->machine[pc].known = true;
            }
        }
    }
}

/* The nth instruction of a PTX line; the function's end if there is none. */
static uint32_t find(struct reader *reader, uint32_t line, uint32_t nth) {
    const struct insn *code = reader->module->code;
    while (reader->pc < reader->function->end_pc && code[reader->pc].line < line) {
        reader->pc++;
    }
    uint32_t pc = reader->pc + nth - 1;
    return pc < reader->function->end_pc && code[pc].line == line ? pc : reader->function->end_pc;
}

enum column { SLOTS, BEFORE, AFTER, ALU, FMA, HALF, IMAD, IMAD_WIDE, SPECIAL, COLUMNS };

/* Reads of special registers and constants (S2R, S2UR, LDC); the file says how long ago each was asked. */
#define ANSWERS 3

static ticks wait_for_answers(const struct chip *chip, const uint32_t asked[ANSWERS]) {
    const ticks latency[ANSWERS] = {chip->special_register_latency, chip->uniform_special_register_latency,
                                    chip->constant_latency};
    ticks wait = 0;
    for (int i = 0; i < ANSWERS; i++) {
        wait = later(wait, latency[i] > asked[i] * TICKS ? latency[i] - asked[i] * TICKS : 0);
    }
    return wait;
}

static ticks charge(uint64_t hundredths, ticks of_one) {
    return (hundredths * of_one + HUNDREDTHS / 2) / HUNDREDTHS;
}

static bool read_line(struct reader *reader, const char *text) {
    char name[LINE_ROOM];
    uint32_t registers, line, nth, waits, asked[ANSWERS];
    if (sscanf(text, "function %4095s %u", name, &registers) == 2) {
        begin_function(reader, name, registers);
        return true;
    }
    uint64_t order, parameters, of[COLUMNS];
    int opens;
    if (sscanf(text, "%u %u %lu %lu %lu %lu %lu %lu %lu %lu %lu %lu %d %u %u %u %u %lu", &line, &nth, &order,
               &of[SLOTS], &of[BEFORE], &of[AFTER], &of[ALU], &of[FMA], &of[HALF], &of[IMAD], &of[IMAD_WIDE],
               &of[SPECIAL], &opens, &waits, &asked[0], &asked[1], &asked[2],
               &parameters) != 6 + COLUMNS + ANSWERS ||
        nth == 0 || opens >= READ_BARRIERS || waits >= 1u << READ_BARRIERS) {
        return false;
    }
    uint32_t pc = reader->function == NULL ? 0 : find(reader, line, nth);
    if (reader->function == NULL || pc == reader->function->end_pc) {
        return reader->function == NULL;
    }
    const struct chip *chip = reader->chip;
    uint64_t computes = of[ALU] + of[FMA] + of[HALF] + of[IMAD] + of[IMAD_WIDE] + of[SPECIAL];
    reader->module->machine[pc] = (struct machine_code){
        .known = true,
        .order = order + 1,
        .slots = charge(of[SLOTS], chip->issue_interval),
        .before = charge(of[BEFORE], TICKS) + wait_for_answers(chip, asked),
        .after = charge(of[AFTER], TICKS),
        .pipe = {[PIPE_ALU] = charge(of[ALU], chip->alu_interval),
                 [PIPE_FMA] = charge(of[FMA], chip->fma_interval) + charge(of[HALF], chip->half_interval) +
                              charge(of[IMAD], chip->imad_interval) +
                              charge(of[IMAD_WIDE], chip->imad_wide_interval),
                 [PIPE_SPECIAL] = charge(of[SPECIAL], chip->special_interval)},
        .parameters = parameters,
        .beside = charge(computes, chip->wgmma_dispatch),
        .opens = (uint8_t)(opens + 1),
        .waits = (uint8_t)waits};
    return true;
}

static bool read_file(struct reader *reader, FILE *file, const char *path, char *message, size_t room) {
    char text[LINE_ROOM];
    uint32_t line = 1;
    bool good = fgets(text, sizeof text, file) != NULL && strcmp(text, FIRST_LINE) == 0;
    while (good && fgets(text, sizeof text, file) != NULL) {
        line++;
        good = read_line(reader, text);
    }
    if (!good) {
        (void)snprintf(message, room, "%s: line %u is not machine code of this module", strrchr(path, '/') + 1,
                       line);
    }
    return good;
}

bool machine_code_read(struct module *module, const struct chip *chip, const char *folder, char *message,
                       size_t room) {
    char path[PATH_ROOM];
    message[0] = '\0';
    unsigned long hash = hash_of(module->text, module->text_bytes);
    (void)snprintf(path, sizeof path, "%s/%016lx.machine", folder, hash);
    FILE *file = fopen(path, "r");
    if (file == NULL && errno == ENOENT) {
        (void)snprintf(path, sizeof path, "%s/%016lx.ptx", folder, hash);
        leave_text(module, path);
        return true;
    }
    if (file == NULL) {
        (void)snprintf(message, room, "%s cannot be read: %s", path, strerror(errno));
        return false;
    }
    struct reader reader = {.module = module, .chip = chip};
    module->machine = arena_take(module->arena, (module->ncode + 1) * sizeof *module->machine);
    bool good = module->machine != NULL && read_file(&reader, file, path, message, room);
    (void)fclose(file);
    for (uint32_t i = 0; good && i < module->nfunctions; i++) {
        const struct function *function = module->functions[i];
        if (function->is_defined && module->machine[function->first_pc].known) {
            good = machine_code_order(module, function);
        }
    }
    return good;
}
