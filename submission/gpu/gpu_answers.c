#include "gpu_answers.h"

#include <string.h>

#define HASH_FACTOR UINT64_C(0x9E3779B97F4A7C15) /* 2^64 divided by the golden ratio (Knuth, vol. 3, 6.4) */

static size_t place_of(const struct question *question) {
    const int64_t numbers[] = {question->m,   question->n,    question->k, question->l,
                               question->sms, question->kind, question->of};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        hash = (hash ^ (uint64_t)numbers[i]) * HASH_FACTOR;
    }
    return (size_t)(hash >> 32) % ANSWERS_KEPT;
}

bool recall_answer(const struct answers *answers, const struct question *question, void *answer, size_t bytes) {
    const size_t place = place_of(question);
    if (!answers->kept[place].known ||
        memcmp(&answers->kept[place].question, question, sizeof *question) != 0) {
        return false;
    }
    memcpy(answer, answers->kept[place].answer, bytes);
    return true;
}

void keep_answer(struct answers *answers, const struct question *question, const void *answer, size_t bytes) {
    const size_t place = place_of(question);
    answers->kept[place].question = *question;
    memcpy(answers->kept[place].answer, answer, bytes);
    answers->kept[place].known = true;
}
