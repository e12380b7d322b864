/* Lines of source files in reports (excerpt.h). */
#include "excerpt.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MAX_LINE 160 /* characters printed of a source line */

/* Prints the line that `place`, "FILE:LINE" of `bytes` characters, names. */
static void print_line(const char *place, size_t bytes, FILE *to) {
    char path[600], text[4096];
    struct stat found;
    const char *colon = memrchr(place, ':', bytes);
    size_t length = colon == NULL ? 0 : (size_t)(colon - place);
    if (length == 0 || length >= sizeof path) {
        return;
    }
    memcpy(path, place, length);
    path[length] = '\0';
    FILE *file = stat(path, &found) == 0 && S_ISREG(found.st_mode) ? fopen(path, "r") : NULL;
    unsigned long wanted = strtoul(colon + 1, NULL, 10), line = 0;
    while (file != NULL && line < wanted && fgets(text, sizeof text, file) != NULL) {
        line += strchr(text, '\n') != NULL || feof(file);
    }
    if (file != NULL && line == wanted && wanted > 0) {
        const char *start = text + strspn(text, " \t");
        (void)fprintf(to, "    %5lu | %.*s\n", wanted,
                      (int)strcspn(start, "\r\n") < MAX_LINE ? (int)strcspn(start, "\r\n") : MAX_LINE, start);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
}

void print_excerpt(const char *source, FILE *to) {
    static const char inlined[] = " inlined at ";
    const char *caller = strstr(source, inlined);
    print_line(source, caller == NULL ? strlen(source) : (size_t)(caller - source), to);
    if (caller != NULL) {
        print_line(caller + sizeof inlined - 1, strlen(caller + sizeof inlined - 1), to);
    }
}
