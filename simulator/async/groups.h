#ifndef SIM_ASYNC_GROUPS_H
#define SIM_ASYNC_GROUPS_H

#include "async.h"

#define GROUPS_AHEAD 256

struct groups {
    struct family {
        uint32_t open;                  /* number of the group that the next commit closes; the first is 1 */
        uint32_t oldest, oldest_unread; /* oldest group with operations not done, not read */
        uint32_t clock_index, read_clock_index; /* index of completions in vector clocks; 0: none yet */
        uint32_t waited_read, last_used;
        bool used;
        const struct insn *last_insn;
        uint32_t unread[GROUPS_AHEAD], unfinished[GROUPS_AHEAD];
    } family[GROUP_FAMILIES];
};

enum next groups_commit(struct run *run, enum group_family family);
enum next groups_wait(struct run *run, enum group_family family, uint32_t pending, bool read);
bool groups_done(const struct warp *warp, enum group_family family, uint32_t upto, bool read);

#endif
