/* The routing of experts on the CPU, by the calling thread: choices, their rows, and the weighted sums. */
#include "cpu_routing.h"

#include <math.h>
#include <string.h>

#include "activation.h"
#include "rounding.h"

/* ---- choices ---- */

/* True if a chosen logit comes before another: larger, or NaN where the other is not. */
static bool is_larger(float x, float than) {
    return x > than || (x != x && than == than);
}

/* Writes a token's choices to `rows` and their weights. */
static void choose(const struct routing *r, int64_t token, int32_t *rows) {
    const int32_t routed = (int32_t)r->routed;
    float logits[CUSTOM_KERNEL_MAX_EXPERTS], largest = 0, sum = 0, of_choices = 0;
    float *weights = r->weights + token * r->choices;
    bool chosen[CUSTOM_KERNEL_MAX_EXPERTS] = {false};
    for (int32_t i = 0; i < routed; i++) {
        logits[i] = number_at(r->logits, token * routed + i, r->logits_type);
    }
    for (int32_t choice = 0; choice < r->choices; choice++) {
        int32_t best = -1;
        for (int32_t i = 0; i < routed; i++) {
            if (!chosen[i] && (best < 0 || is_larger(logits[i], logits[best]))) {
                best = i;
            }
        }
        chosen[best] = true;
        largest = choice == 0 ? logits[best] : largest;
        rows[choice] = best;
        weights[choice] = exp_fp32(logits[best] - largest);
        of_choices += weights[choice];
    }
    for (int32_t i = 0; i < routed && !r->normalize; i++) {
        sum += exp_fp32(logits[i] - largest);
    }
    for (int32_t choice = 0; choice < r->choices; choice++) {
        weights[choice] /= r->normalize ? of_choices : sum;
    }
}

static void take_ids(const struct routing *r, int64_t token, int32_t *rows) {
    for (int32_t choice = 0; choice < r->choices; choice++) {
        const int64_t at = token * r->choices + choice;
        const int64_t id =
            r->id_bytes == sizeof(int64_t) ? ((const int64_t *)r->ids)[at] : ((const int32_t *)r->ids)[at];
        rows[choice] = id >= 0 && id < r->routed && id <= INT32_MAX ? (int32_t)id : -1;
    }
}

/* ---- rows ---- */

int32_t cpu_run_route(const struct routing *r) {
    const int64_t tokens = r->problem.m, all = tokens * r->choices;
    int32_t next[CUSTOM_KERNEL_MAX_EXPERTS], end = 0; /* the next row of each expert */
    memset(r->counts, 0, (size_t)r->experts * sizeof *r->counts);
    for (int64_t token = 0; token < tokens; token++) {
        int32_t *rows = r->rows + token * r->choices;
        if (r->ids != NULL) {
            take_ids(r, token, rows);
        } else {
            choose(r, token, rows);
        }
        for (int32_t choice = 0; choice < r->choices; choice++) {
            const int32_t id = rows[choice], expert = id >= 0 && r->map != NULL ? r->map[id] : id;
            rows[choice] = expert >= 0 && expert < r->experts ? expert : -1;
            if (rows[choice] >= 0) {
                r->counts[expert]++;
            }
        }
    }
    for (int32_t expert = 0; expert < r->experts; expert++) {
        next[expert] = end;
        end += r->counts[expert];
    }
    for (int64_t i = 0; i < all; i++) {
        if (r->rows[i] >= 0) {
            r->rows[i] = next[r->rows[i]]++;
            r->tokens[r->rows[i]] = (int32_t)(i / r->choices);
        }
    }
    for (int64_t row = end; row < all; row++) {
        r->tokens[row] = -1;
    }
    return CUSTOM_KERNEL_OK;
}

/* ---- sums ---- */

int32_t cpu_run_combine(const struct combination *c) {
    enum { COLUMNS = 256 }; /* that are summed at a time */
    const int64_t m = c->problem.m, n = c->problem.n, all = m * c->choices;
    for (int64_t token = 0; token < m; token++) {
        for (int64_t first = 0; first < n; first += COLUMNS) {
            const int64_t columns = n - first < COLUMNS ? n - first : COLUMNS;
            float sums[COLUMNS] = {0};
            for (int64_t at = token * c->choices; at < (token + 1) * c->choices; at++) {
                const int64_t row = c->rows[at];
                if (row < 0 || row >= all) {
                    continue;
                }
                const float weight = c->weights != NULL ? number_at(c->weights, at, c->weights_type) : 1;
                for (int64_t i = 0; i < columns; i++) {
                    sums[i] += weight * number_at(c->y, row * n + first + i, c->type);
                }
            }
            uint16_t *to = c->problem.c + token * n + first;
            for (int64_t i = 0; i < columns; i++) {
                to[i] = c->type == CUSTOM_KERNEL_BF16 ? bfloat_bits(sums[i]) : half_bits(sums[i]);
            }
        }
    }
    return CUSTOM_KERNEL_OK;
}
