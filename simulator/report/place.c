/* Prints JSON strings, and places in PTX and source. */
#include "place.h"

#include "excerpt.h"

/* The length of the UTF-8 character at `text`; 0 if it is not valid UTF-8 (RFC 3629). */
static int utf8_bytes(const unsigned char *text) {
    int more = text[0] < 0x80 ? 0 : text[0] < 0xc2 ? -1 : text[0] < 0xe0 ? 1 : text[0] < 0xf0 ? 2 : 3;
    bool right = more >= 0 && text[0] < 0xf5;
    for (int i = 1; right && i <= more; i++) {
        right = (text[i] & 0xc0) == 0x80;
    }
    right = right && !(text[0] == 0xe0 && text[1] < 0xa0) && !(text[0] == 0xed && text[1] > 0x9f) &&
            !(text[0] == 0xf0 && text[1] < 0x90) && !(text[0] == 0xf4 && text[1] > 0x8f);
    return right ? more + 1 : 0;
}

void print_string(FILE *to, const char *text) {
    (void)fputc('"', to);
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char)*text;
        int bytes = utf8_bytes((const unsigned char *)text);
        if (bytes == 0) {
            (void)fputs("\\ufffd", to); /* JSON cannot represent an invalid byte */
        } else if (bytes > 1) {
            (void)fwrite(text, 1, (size_t)bytes, to);
            text += bytes - 1;
        } else if (c == '"' || c == '\\') {
            (void)fprintf(to, "\\%c", c);
        } else if (c == '\n') {
            (void)fputs("\\n", to);
        } else if (c < ' ') {
            (void)fprintf(to, "\\u%04x", c);
        } else {
            (void)fputc(c, to);
        }
    }
    (void)fputc('"', to);
}

void print_member(FILE *to, const char *name, const char *text) {
    (void)fprintf(to, ", \"%s\": ", name);
    print_string(to, text);
}

void print_place(const char *word, uint32_t ptx_line, const char *ptx, const char *source, FILE *to) {
    (void)fprintf(to, "  %s PTX line %u%s%s\n", word, ptx_line, source[0] != '\0' ? ", " : "", source);
    if (ptx[0] != '\0') {
        (void)fprintf(to, "    ptx | %s\n", ptx);
    }
    print_excerpt(source, to);
}
