/* The texts that say where a finding is: source line, PTX statement, variable. */
#include <stdio.h>
#include <stdlib.h>

#include "findings.h"

static const char *file_name(const struct module *module, uint32_t index) {
    for (uint32_t i = 0; i < module->nfiles; i++) {
        if (module->files[i].index == index) {
            return module->files[i].name;
        }
    }
    return "?";
}

char *source_of(const struct module *module, const struct insn *insn) {
    char text[600];
    if (insn == NULL || insn->loc == 0) {
        return strdup("");
    }
    const struct source_loc *loc = &module->locs[insn->loc];
    const char *file = file_name(module, loc->file), *at = file_name(module, loc->at_file);
    if (loc->at_line != 0) {
        (void)snprintf(text, sizeof text, "%.250s:%u inlined at %.250s:%u", file, loc->line, at, loc->at_line);
    } else {
        (void)snprintf(text, sizeof text, "%.500s:%u", file, loc->line);
    }
    return strdup(text);
}

char *text_of(const struct module *module, const struct insn *insn) {
    char text[300] = "";
    if (insn == NULL || module->text == NULL) {
        return strdup("");
    }
    const char *at = module->text, *end = at + module->text_bytes;
    for (uint32_t line = 1; line < insn->line && at != NULL; line++) {
        at = memchr(at, '\n', (size_t)(end - at));
        at = at == NULL ? NULL : at + 1;
    }
    if (at == NULL) {
        return strdup("");
    }
    const char *stop = memchr(at, '\n', (size_t)(end - at));
    stop = stop == NULL ? end : stop;
    const char *named = memmem(at, (size_t)(stop - at), insn->name, strlen(insn->name));
    const char *begin = named == NULL ? at : named;
    while (begin > at && strchr(";{}:\t", begin[-1]) == NULL) { /* include the guard */
        begin--;
    }
    size_t used = 0;
    for (at = begin; at < end && used + 1 < sizeof text && (at == begin || at[-1] != ';'); at++) {
        bool space = *at == ' ' || *at == '\t' || *at == '\n' || *at == '\r';
        if (!space) {
            text[used++] = *at;
        } else if (used > 0 && text[used - 1] != ' ') {
            text[used++] = ' ';
        }
    }
    text[used] = '\0';
    return strdup(text);
}

/* The last name in a mangled one (Itanium C++ ABI: a length and as many characters, then the end, E or
 * _NUMBER). */
static int last_name(const char **name) {
    const char *whole = *name;
    for (const char *at = strncmp(whole, "_Z", 2) == 0 ? whole : ""; *at != '\0'; at++) {
        char *text;
        const bool begins = *at >= '1' && *at <= '9' && (at[-1] < '0' || at[-1] > '9');
        const unsigned long bytes = begins ? strtoul(at, &text, 10) : 0;
        if (bytes > 0 && bytes <= strlen(text)) {
            const char *rest = text + bytes;
            if (rest[strspn(rest, "_0123456789E")] == '\0' && (*rest == '\0' || *rest == '_' || *rest == 'E')) {
                *name = text;
                return (int)bytes;
            }
        }
    }
    return (int)strlen(whole);
}

/* Where a variable begins that the kernel may use, as an offset of the kind that findings have. */
static bool begins_at(const struct launch *launch, const struct cta *cta, const struct variable *variable,
                      bool shared, uint64_t *at) {
    const bool dynamic = launch->module->dynamic_shared == (int64_t)variable->index;
    if (shared) {
        *at = dynamic ? cta->dynamic_at : launch->shared_at[variable->index];
        return variable->space == SP_SHARED && *at != 0;
    }
    *at = variable->offset;
    return variable->space == SP_GLOBAL;
}

char *variable_of(const struct launch *launch, const struct cta *cta, const struct allocation *allocation,
                  int64_t offset) {
    char text[200] = "";
    const bool shared = allocation == NULL;
    const bool placed =
        shared ? cta != NULL && launch->shared_at != NULL
               : launch->module != NULL && allocation->base == (uintptr_t)launch->module->global_memory;
    for (uint32_t i = 0; offset >= 0 && placed && i < launch->module->nvariables; i++) {
        const struct variable *variable = launch->module->variables[i];
        const bool open = shared && launch->module->dynamic_shared == (int64_t)i; /* extern, of no size */
        uint64_t at;
        if (begins_at(launch, cta, variable, shared, &at) && (uint64_t)offset >= at &&
            (open || (uint64_t)offset - at < variable->bytes)) {
            const char *name = variable->name;
            const int bytes = last_name(&name);
            (void)snprintf(text, sizeof text, (uint64_t)offset == at ? "%.*s" : "%.*s + %#llx", bytes, name,
                           (unsigned long long)offset - at);
            break;
        }
    }
    return strdup(text);
}
