/* The products of experts on the CPU: a problem for each expert that has rows. */
#include <stdlib.h>
#include <string.h>

#include "../core/expert_rows.h"
#include "cpu_backend.h"

/* What a call needs besides the caller's tensors. */
struct expert_problems {
    struct problem *problems;     /* [experts], those with rows first */
    struct extension *extensions; /* likewise */
    uint8_t *sfa;                 /* a blocked sfa row by row; else NULL */
    uint8_t *a;                   /* the rows of A that an index names; else NULL */
    int64_t count;
};

/* Scale factors of A row by row: an expert's first row may lie anywhere in a block. */
static uint8_t *by_rows(const struct experts *experts) {
    const int64_t groups = experts->all.k / NVFP4_GROUP_ELEMS, rows = experts->all.m;
    const int64_t batches = rows_of_experts(experts) / rows;
    uint8_t *copy = malloc((size_t)(batches * rows * groups));
    for (int64_t batch = 0; copy != NULL && batch < batches; batch++) {
        const uint8_t *from = experts->all.sfa + batch * scale_batch_bytes(experts->sfa_layout, rows, groups);
        for (int64_t row = 0; row < rows; row++) {
            for (int64_t group = 0; group < groups; group++) {
                copy[(batch * rows + row) * groups + group] =
                    from[scale_offset(experts->sfa_layout, row, group, groups)];
            }
        }
    }
    return copy;
}

/* The rows of A of 16 bits, in order. */
static uint8_t *by_index(const struct experts *experts) {
    const size_t row_bytes = (size_t)experts->all.k * sizeof(uint16_t);
    const int64_t rows = rows_of_experts(experts);
    uint8_t *copy = malloc((size_t)rows * row_bytes);
    for (int64_t row = 0; copy != NULL && row < rows; row++) {
        const int64_t from = experts->a_index[row];
        if (from >= 0 && from < experts->a_rows) {
            memcpy(copy + (size_t)row * row_bytes, experts->all.a + (size_t)from * row_bytes, row_bytes);
        } else {
            memset(copy + (size_t)row * row_bytes, 0, row_bytes);
        }
    }
    return copy;
}

/* Adds expert number `expert`, whose `rows` rows begin at first_row. */
static void add_expert(const struct experts *experts, int64_t expert, int64_t first_row, int64_t rows,
                       struct expert_problems *to) {
    const struct problem *all = &experts->all;
    const int64_t groups = all->k / NVFP4_GROUP_ELEMS, b_bytes = experts->b_rows * (all->k / 2);
    const int64_t sfb_bytes = scale_batch_bytes(all->scale_layout, experts->b_rows, groups);
    struct problem *problem = &to->problems[to->count];
    struct extension *extension = &to->extensions[to->count++];
    *problem = *all;
    *extension = experts->extension;
    problem->extension = extension;
    problem->m = rows;
    problem->l = 1;
    problem->rows_of_a = true;
    if (experts_have_16_bit_a(experts)) {
        problem->a = (to->a != NULL ? to->a : all->a) + first_row * all->k * (int64_t)sizeof(uint16_t);
    } else {
        problem->a += first_row * (all->k / 2);
        problem->sfa = (to->sfa != NULL ? to->sfa : all->sfa) + first_row * groups;
    }
    problem->b1 += expert * b_bytes;
    problem->sfb1 += expert * sfb_bytes;
    if (all->b2 != NULL) {
        problem->b2 += expert * b_bytes;
        problem->sfb2 += expert * sfb_bytes;
    }
    const bool nvfp4 = extension->output == CUSTOM_KERNEL_NVFP4;
    problem->c += first_row * (nvfp4 ? all->n / 4 : all->n); /* c counts units of 16 bits */
    const float **scales[] = {&extension->scale_gate, &extension->scale_up, &extension->scale_c};
    for (size_t i = 0; i < sizeof scales / sizeof *scales; i++) {
        *scales[i] += *scales[i] != NULL ? expert : 0;
    }
    extension->bias_gate += extension->bias_gate != NULL ? expert * all->n : 0;
    extension->bias_up += extension->bias_up != NULL ? expert * all->n : 0;
    if (extension->token_scale != NULL) {
        extension->token_scale += first_row;
    }
    if (nvfp4) {
        extension->sfc += first_row * (all->n / NVFP4_GROUP_ELEMS);
    }
}

static void list_experts(const struct experts *experts, struct expert_problems *to) {
    const int32_t rows = (int32_t)experts->all.m;
    int32_t end = 0;
    for (int64_t expert = 0; expert < experts->all.l; expert++) {
        const int32_t value = clamped_count(experts->counts[expert], rows), first = end;
        if (experts->tokens == CUSTOM_KERNEL_TOKENS_PADDED) {
            if (value > 0) {
                add_expert(experts, expert, expert * rows, value, to);
            }
            continue;
        }
        end = joined_end(experts->tokens, first, value, rows);
        if (end > first) {
            add_expert(experts, expert, first, end - first, to);
        }
    }
}

int32_t cpu_run_experts(const struct experts *experts) {
    const size_t count = (size_t)experts->all.l;
    const bool gathers = experts->a_index != NULL,
               copies = !experts_have_16_bit_a(experts) && experts->sfa_layout != CUSTOM_KERNEL_SCALES_ROWS;
    struct expert_problems all = {
        .problems = malloc(count * sizeof *all.problems),
        .extensions = malloc(count * sizeof *all.extensions),
        .sfa = copies ? by_rows(experts) : NULL,
        .a = gathers ? by_index(experts) : NULL,
    };
    int32_t status = CUSTOM_KERNEL_OK;
    if (all.problems == NULL || all.extensions == NULL || (copies && all.sfa == NULL) ||
        (gathers && all.a == NULL)) {
        status = set_message(CUSTOM_KERNEL_ERROR_OUT_OF_MEMORY, "no host memory to list %zu experts", count);
    } else {
        list_experts(experts, &all);
        /* The set for one row, not AMX: that adds up a row in an order that depends on the rows beside it. */
        status = all.count > 0 ? cpu_run_problems(all.problems, all.count, 1) : CUSTOM_KERNEL_OK;
    }
    free(all.problems);
    free(all.extensions);
    free(all.sfa);
    free(all.a);
    return status;
}
