/* Words of global memory by which CTAs tell each other, and what their orders wait for. */
#include <string.h>

#include "timing.h"

/* A store, an addition or an exchange that others may see no sooner than all before it. */
static bool releases(const struct insn *insn) {
    bool ordered = strstr(insn->name, ".release") != NULL || strstr(insn->name, ".acq_rel") != NULL;
    bool far = strstr(insn->name, ".gpu") != NULL || strstr(insn->name, ".sys") != NULL;
    bool global = insn->space == SP_GLOBAL || insn->space == SP_GENERIC;
    return insn->timing == FAMILY_MEMORY && ordered && far && global;
}

/* HW (measured, H200 and H100: stores_and_word_cycles): ptxas puts a fence of the chip before such a word,
 * which waits for copies as others do, and until memory has answered the stores before it. */
bool time_word(const struct warp *warp, const struct split *split, ticks ready) {
    const struct launch *launch = warp->cta->cluster->launch;
    const struct chip *chip = &launch->timing->chip;
    const struct sm_time *sm = sm_of(warp->cta);
    struct warp_time *time = warp->time;
    if (chip->store_answered == 0 || ready == NEVER || split->resumed || time->prepared ||
        !releases(&launch->module->code[split->pc])) {
        return false;
    }
    time->prepared = true;
    time->fenced = ready;
    time->fence_waits = chip->fence_gpu_asks > 0;
    time->fenced_copies = sm->copies != time->copies_fenced;
    time->copies_fenced = sm->copies;
    ticks answered = sm->stores_out > 0 ? sm->stores_out + chip->store_answered : 0;
    time->asked = chip->fence_gpu_asks > 0 ? later(ready + chip->fence_gpu_asks, answered) : ready;
    time->next = later(ready + chip->fence_gpu, answered);
    return true;
}
