/* Describes the smallest set of delays: each operation and until when it was delayed. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "machine/findings.h"
#include "shrink.h"

static void describe_until(const struct module *module, const struct scheduled *one, char *to) {
    char warp[80] = "no warp had run", at[40] = "";
    if (one->last_warp != UINT32_MAX) {
        (void)snprintf(warp, sizeof warp, "warp %u of CTA %u,%u,%u had run to %s", one->last_warp,
                       one->last_cta[0], one->last_cta[1], one->last_cta[2],
                       one->last_pc == UINT32_MAX ? "its end" : "PTX line ");
    }
    if (one->last_pc != UINT32_MAX) {
        (void)snprintf(at, sizeof at, "%u", module->code[one->last_pc].line);
    }
    (void)snprintf(to, UNTIL_BYTES, "%s%s%s",
                   one->written == SCHEDULED_IDLE      ? "until no warp could go on: last "
                   : one->written == SCHEDULED_BETWEEN ? "until "
                   : one->written == SCHEDULED_ENDED   ? "until all threads of the cluster had ended"
                                                       : "until after the finding",
                   one->written == SCHEDULED_IDLE || one->written == SCHEDULED_BETWEEN ? warp : "",
                   one->written == SCHEDULED_IDLE || one->written == SCHEDULED_BETWEEN ? at : "");
}

static bool add_turns(struct shrinking *to) {
    struct sim_delay *delay = &to->delays[to->shown.count++];
    *delay = (struct sim_delay){.operation = "turns of the warps",
                                .warp = -1,
                                .lane = -1,
                                .ptx = strdup(""),
                                .source = strdup(""),
                                .until = "as the seed draws them"};
    return delay->ptx != NULL && delay->source != NULL;
}

static bool add_delay(struct shrinking *to, const struct module *module, const struct scheduled *one) {
    struct sim_delay *delay = &to->delays[to->shown.count];
    char *until = to->until[to->shown.count++];
    const struct insn *insn = &module->code[one->issue.pc];
    describe_until(module, one, until);
    *delay = (struct sim_delay){.operation = one->kind,
                                .cta = {one->cta[0], one->cta[1], one->cta[2]},
                                .warp = (int32_t)one->warp,
                                .lane = one->lane,
                                .ptx_line = insn->line,
                                .ptx = text_of(module, insn),
                                .source = source_of(module, insn),
                                .occurrence = one->issue.occurrence,
                                .until = until};
    return delay->ptx != NULL && delay->source != NULL;
}

bool shrinking_describe(struct shrinking *to, const struct module *module, const struct schedule *schedule,
                        bool turns) {
    size_t delays = turns;
    for (uint32_t i = 0; i < schedule->count; i++) {
        delays += schedule->list[i].delayed;
    }
    to->delays = calloc(delays + 1, sizeof *to->delays);
    to->until = calloc(delays + 1, sizeof *to->until);
    bool done = to->delays != NULL && to->until != NULL && (!turns || add_turns(to));
    for (uint32_t i = 0; done && i < schedule->count; i++) {
        done = !schedule->list[i].delayed || add_delay(to, module, &schedule->list[i]);
    }
    to->shown.delays = to->delays;
    return done;
}
