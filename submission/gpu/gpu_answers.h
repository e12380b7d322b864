/* Answers of a cost model, kept by their question: a model asks for the same few shapes again and again, and an
 * answer takes up to 2 us. */
#ifndef GPU_ANSWERS_H
#define GPU_ANSWERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ANSWERS_KEPT = 64, ANSWER_BYTES = 40 };

/* All that an answer depends on; members that do not matter are 0. */
struct question {
    int64_t m, n, k, l, sms;
    int64_t kind, of; /* as the asker says */
};

/* One for each kind of answer and thread, zeros at first. */
struct answers {
    struct {
        bool known;
        struct question question;
        unsigned char answer[ANSWER_BYTES];
    } kept[ANSWERS_KEPT];
};

/* Copies the answer to *answer, if it is kept. */
bool recall_answer(const struct answers *answers, const struct question *question, void *answer, size_t bytes);
void keep_answer(struct answers *answers, const struct question *question, const void *answer, size_t bytes);

#endif
