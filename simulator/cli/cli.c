/* Shared by the commands of ptxsim: messages, files, suppressions. */
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

int cli_fail(const char *what, const char *detail) {
    (void)fprintf(stderr, "ptxsim: %s%s%s\n", what, detail[0] != '\0' ? ": " : "", detail);
    return EXIT_NOT_RUN;
}

void cli_warn_of_limit(void) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_CPU, &limit) == 0 && limit.rlim_max != RLIM_INFINITY && limit.rlim_max > 1 &&
        limit.rlim_cur >= limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max - 1;
        (void)setrlimit(RLIMIT_CPU, &limit);
    }
}

char *cli_read_file(const char *name, size_t *bytes) {
    FILE *file = fopen(name, "rb");
    if (file == NULL) {
        return NULL;
    }
    size_t room = 1 << 16, used = 0;
    char *text = malloc(room);
    while (text != NULL) {
        used += fread(text + used, 1, room - used, file);
        if (used < room) {
            break;
        }
        char *grown = realloc(text, room *= 2);
        if (grown == NULL) {
            free(text);
        }
        text = grown;
    }
    if (text == NULL) {
        errno = ENOMEM;
    }
    (void)fclose(file);
    if (text != NULL) {
        text[used] = '\0'; /* there is room: the last read was short */
    }
    *bytes = used;
    return text;
}

int cli_read_rules(struct sim *sim, const char *path) {
    char message[300];
    size_t bytes;
    char *text = cli_read_file(path, &bytes);
    if (text == NULL) {
        return cli_fail(path, strerror(errno));
    }
    int wrong = sim_suppress(sim, text, message, sizeof message);
    free(text);
    return wrong == 0 ? 0 : cli_fail(path, message);
}
