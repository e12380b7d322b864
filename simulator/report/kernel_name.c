/* Demangles as much of the Itanium C++ ABI as a reader needs: identifiers with ::, template arguments, no
 * parameters.  A type appears without its namespaces.  What it does not know, and what goes past MOST
 * characters, becomes dots. */
#include <string.h>

#include "sim.h"

#define MOST    72 /* characters after which no template argument begins */
#define DEEPEST 16 /* types and packs inside each other */

struct name {
    const char *at; /* NULL after something unknown */
    char *to;
    size_t room, used;
    int depth;
};

static void type_name(struct name *name);

static void put(struct name *name, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes && name->used + 1 < name->room; i++) {
        name->to[name->used++] = text[i];
    }
    if (name->room > 0) {
        name->to[name->used] = '\0';
    }
}

static void put_text(struct name *name, const char *text) {
    put(name, text, strlen(text));
}

/* A length and as many characters. */
static void identifier(struct name *name) {
    size_t bytes = 0, left = strlen(name->at);
    while (*name->at >= '0' && *name->at <= '9' && bytes <= left) {
        bytes = 10 * bytes + (size_t)(*name->at++ - '0');
    }
    if (bytes == 0 || bytes > strlen(name->at)) {
        name->at = NULL;
        return;
    }
    if (strncmp(name->at, "_GLOBAL__N_", 11) == 0) {
        put_text(name, "(anonymous)");
    } else {
        put(name, name->at, bytes);
    }
    name->at += bytes;
}

/* L, a type, n for minus, digits, E. */
static void literal(struct name *name) {
    bool boolean = *name->at == 'b';
    if (*name->at >= 'a' && *name->at <= 'z') {
        name->at++;
    } else { /* of an enumeration */
        put_text(name, "(");
        type_name(name);
        put_text(name, ")");
    }
    if (name->at == NULL) {
        return;
    }
    bool minus = *name->at == 'n';
    const char *number = name->at + minus;
    size_t digits = strspn(number, "0123456789");
    if (digits == 0 || number[digits] != 'E') {
        name->at = NULL;
        return;
    }
    put(name, "-", minus);
    if (boolean) {
        put_text(name, *number == '0' ? "false" : "true");
    } else {
        put(name, number, digits);
    }
    name->at = number + digits + 1;
}

/* Arguments up to E; `separator` comes before the first. */
static void arguments(struct name *name, const char *separator) {
    while (name->at != NULL && *name->at != 'E') {
        size_t before = name->used;
        if (*name->at == 'J' && name->depth < DEEPEST) { /* a pack */
            name->at++;
            name->depth++;
            arguments(name, separator);
            name->depth--;
        } else {
            put_text(name, separator);
            if (name->used > MOST || *name->at == '\0') {
                name->at = NULL;
            } else if (*name->at == 'L') {
                name->at++;
                literal(name);
            } else {
                type_name(name);
            }
            if (name->at == NULL && (name->used == 0 || name->to[name->used - 1] != '>')) {
                put_text(name, "...");
            }
        }
        separator = name->used > before ? ", " : separator; /* a pack may be empty */
    }
    name->at = name->at == NULL ? NULL : name->at + 1;
}

static void template_arguments(struct name *name) {
    if (name->at != NULL && *name->at == 'I') {
        name->at++;
        put_text(name, "<");
        arguments(name, "");
        put_text(name, ">");
    }
}

/* S and what it stands for: a part of the name that came before.  St is std. */
static void skip_substitution(struct name *name) {
    name->at += 1 + strspn(name->at + 1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    name->at = *name->at == '_' || *name->at == 't' ? name->at + 1 : NULL;
}

/* Components up to E; `whole`: with all of them, else the last alone. */
static void nested(struct name *name, bool whole) {
    size_t start = name->used;
    bool named = false;
    name->at += strspn(name->at, "rVK");
    while (name->at != NULL && *name->at != 'E') {
        name->at += *name->at == 'L'; /* a static function */
        if (*name->at == 'S') {
            skip_substitution(name);
        } else if (*name->at == 'I' && named) {
            template_arguments(name);
        } else if (*name->at < '0' || *name->at > '9') {
            name->at = NULL;
        } else {
            name->used = whole ? name->used : start;
            put(name, "::", whole && named ? 2 : 0);
            identifier(name);
            named = true;
        }
    }
    name->at = name->at == NULL || !named ? NULL : name->at + 1;
}

static void type_name(struct name *name) {
    static const char *const builtin['z' - 'a' + 1] = {['a' - 'a'] = "signed char",
                                                       ['b' - 'a'] = "bool",
                                                       ['c' - 'a'] = "char",
                                                       ['d' - 'a'] = "double",
                                                       ['f' - 'a'] = "float",
                                                       ['h' - 'a'] = "unsigned char",
                                                       ['i' - 'a'] = "int",
                                                       ['j' - 'a'] = "unsigned",
                                                       ['l' - 'a'] = "long",
                                                       ['m' - 'a'] = "unsigned long",
                                                       ['n' - 'a'] = "__int128",
                                                       ['s' - 'a'] = "short",
                                                       ['t' - 'a'] = "unsigned short",
                                                       ['v' - 'a'] = "void",
                                                       ['w' - 'a'] = "wchar_t",
                                                       ['x' - 'a'] = "long long",
                                                       ['y' - 'a'] = "unsigned long long"};
    char first = *name->at;
    if (name->depth == DEEPEST) {
        name->at = NULL;
        return;
    }
    name->depth++;
    if (first >= 'a' && first <= 'z' && builtin[first - 'a'] != NULL) {
        name->at++;
        put_text(name, builtin[first - 'a']);
    } else if (first == 'P' || first == 'R' || first == 'O') {
        name->at++;
        type_name(name);
        put_text(name, name->at == NULL ? "" : first == 'P' ? "*" : first == 'R' ? "&" : "&&");
    } else if (first == 'K' || first == 'V') {
        name->at++;
        put_text(name, first == 'K' ? "const " : "volatile ");
        type_name(name);
    } else if (first == 'N') {
        name->at++;
        nested(name, false);
    } else if (first == 'S' && name->at[1] == 't') {
        name->at += 2;
        identifier(name);
        template_arguments(name);
    } else if (first >= '0' && first <= '9') {
        identifier(name);
        template_arguments(name);
    } else {
        name->at = NULL;
    }
    name->depth--;
}

const char *sim_short_name(const char *mangled, char *to, size_t room) {
    struct name name = {.at = mangled, .to = to, .room = room};
    if (strncmp(mangled, "_Z", 2) == 0) {
        name.at += 2;
        name.at += strspn(name.at, "L");
        if (*name.at == 'N') {
            name.at++;
            nested(&name, true);
        } else {
            identifier(&name);
            template_arguments(&name);
        }
    }
    if (name.used == 0) {
        put_text(&name, mangled);
    }
    return to;
}
