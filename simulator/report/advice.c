/* One line of advice for each kind of finding: the rule of the PTX ISA, what chips do, how to fix it. */
#include "advice.h"

#include <string.h>

#define RACE     "memory consistency model: two accesses to the same bytes, one of them a write, need an order"
#define RACE_DO  "give either result, mostly the expected one"
#define RACE_FIX "put a barrier, or an mbarrier arrive and wait, between the two"
#define MAP      "tensormap.replace, fence.proxy.tensormap: a changed map needs release, acquire and the fence"
#define MISUSE   "fault, hang or count wrongly"
#define TMEM_DO  "occasionally read stale or partly written columns"

static const struct advice {
    const char *kind, *rule, *chips, *fix;
} advice[] = {
    {"read-before-completion", "asynchronous operations: wait for the completion before using the result",
     "read old bytes when the copy is late", "wait for the mbarrier phase or the group of the copy first"},
    {"overwrite-while-read",
     "asynchronous operations: do not overwrite memory that they, or other readers, may still read",
     "copy or multiply some of the new bytes", "first wait for the completion, or for the readers' arrivals"},
    {"double-write", "asynchronous operations: two writes need an order", "leave the bytes of either",
     "wait for the completion of the first"},
    {"write-race", RACE, RACE_DO, RACE_FIX},
    {"read-after-write-race", RACE, RACE_DO, RACE_FIX},
    {"write-after-read-race", RACE, RACE_DO, RACE_FIX},
    {"global-race", RACE, RACE_DO,
     "use a barrier inside a cluster; between clusters, release a flag after all stores and acquire it before "
     "the loads, with a barrier on either side"},
    {"async-read-race", RACE, "occasionally copy old bytes", RACE_FIX ", and fence.proxy.async"},
    {"missing-proxy-fence",
     "async proxy: it sees bytes written by ordinary stores only after fence.proxy.async",
     "occasionally copy old bytes", "execute fence.proxy.async in the writing threads, before the barrier"},
    {"elected-signal", "an arrival covers its own thread only; bar.warp.sync orders the lanes of a warp",
     "mostly run lanes in step", "call __syncwarp() before the elected lane arrives"},
    {"lane-race", "the lanes of a warp have no order without bar.warp.sync", "mostly run lanes in step",
     "call __syncwarp() between the two"},
    {"uninitialised-read", "ld: memory that was never written has any value",
     "read what an earlier CTA or program left", "write it first, or do not use the value"},
    {"cta-exited", "shared::cluster: the other CTA has to exist until the access is complete",
     "fault or touch memory of another CTA", "barrier.cluster.arrive and .wait after the last remote use"},
    {"missing-wgmma-fence", "wgmma.fence orders register writes before wgmma.mma_async",
     "use old register values", "execute wgmma.fence.sync.aligned after the last write"},
    {"wgmma-register", "wgmma.wait_group has to precede a use of the registers", "read partial sums",
     "execute wgmma.wait_group before the use"},
    {"wgmma-warps", "wgmma: all four warps of a warpgroup execute the same instruction", MISUSE,
     "use the same operands and control flow in the four warps"},
    {"mbarrier-init-fence",
     "fence.mbarrier_init or fence.proxy.async before asynchronous operations use the mbarrier",
     "mostly see the initialisation after a barrier",
     "execute fence.mbarrier_init.release.cluster in the initialising thread"},
    {"mbarrier-init-race", "mbarrier.init has to precede every use", "use an mbarrier made of old bytes",
     "put a barrier between the initialisation and the use"},
    {"no-mbarrier", "mbarrier: an object has to be initialised and not invalidated", MISUSE,
     "execute mbarrier.init first, or correct the address"},
    {"mbarrier-arrivals", "mbarrier: no more arrivals than are pending", "complete a phase too early",
     "initialise the mbarrier with the number of arrivals"},
    {"mbarrier-count", "mbarrier.init: a count of 1 to 2^20 - 1", MISUSE,
     "pass the number of arrivals of a phase"},
    {"mbarrier-init", "mbarrier.init on a live object is undefined", MISUSE, "execute mbarrier.inval first"},
    {"tx-count", "expect_tx: the bytes expected in a phase are those that arrive in it",
     "hang or go on too early", "expect the bytes that the copies of that phase bring"},
    {"multimem", "multimem: the address belongs to a multicast object",
     "access all devices of the object over NVLink",
     "take the path without multicast: the device reports that it has none"},
    {"call-pointer", "no rule: a limit of the simulator", "call the function",
     "do without the instruction named above, or without the call"},
    {"no-cluster", "st.async writes to shared::cluster memory", "stop: illegal instruction (an H200)",
     "launch with a cluster, even of one CTA, or add .reqnctapercluster"},
    {"barrier-rank", "cp.async.bulk: the mbarrier is in the CTA of the destination", MISUSE,
     "use an mbarrier in the CTA of the destination"},
    {"narrow-scope",
     "memory consistency model: the scopes of release and acquire have to include each other's thread",
     "mostly order the two all the same", "use scope .cluster or .gpu on both sides"},
    {"missed-phase", "mbarrier.test_wait can only test the current or the preceding phase", "occasionally hang",
     "do not let the next phase complete before every waiter has seen this one"},
    {"tensor-map-in-use", MAP, "copy with half a map",
     "wait for the copies that use the map before changing it"},
    {"tensor-map-race", MAP, "copy with either map", "put a release and an acquire between change and copy"},
    {"missing-tensormap-fence", MAP, "copy with a cached old map",
     "execute fence.proxy.tensormap::generic.acquire before the copy"},
    {"missing-griddepcontrol-wait",
     "griddepcontrol.wait: the writes of the earlier grid are visible only after it",
     "occasionally read old bytes", "execute griddepcontrol.wait before the first such access"},
    {"unwaited-predecessor",
     "griddepcontrol.wait: waits for the previous grid, whose end does not imply that of earlier grids",
     "occasionally read old bytes", "execute griddepcontrol.wait in some thread of every kernel of the chain"},
    {"queue-race", "CUDA: work in different streams has no order without an event or a wait of the host",
     "give either result", "cudaStreamWaitEvent on an event after the other launch"},
    {"unfinished-store", "cp.async.bulk: the source has to exist until it has been read",
     "mostly read it in time", "execute cp.async.bulk.wait_group.read 0 before the warp ends"},
    {"deadlock", "no rule: nothing can run any more", "hang",
     "compare arrivals and bytes with the counts in the table above"},
    {"setmaxnreg", "setmaxnreg.inc: blocks until the pool of the CTA has the registers", "hang (an H200)",
     "the pool holds registers at the launch times threads: execute setmaxnreg.dec in other warpgroups first"},
    {"divergent-aligned", ".aligned: all threads of the warp execute it", "hang or give any result",
     "reconverge the warp first, or leave .aligned out"},
    {"assert", "CUDA C: assert", "end the launch with cudaErrorAssert", "correct what the assertion checks"},
    {"trap", "trap: ends the launch", "end the launch", "find the condition that leads to it"},
    {"runaway", "no rule: a limit of the simulator", "run on", "look for an endless loop, or raise --limit"},
    {"launch-refused", "CUDA driver API: limits of a launch", "refuse the launch",
     "correct the shape, memory or arguments named above"},
    {"mma-scales",
     "mma.sync, block scaling: byte and thread selectors have the listed values, the same in all lanes",
     "multiply by other scales",
     "select byte 0 of four, 0 or 2 of two, any of one; thread 0 or 1 for A, 0 to 3 for B"},
    {"cvt-random-bits", "cvt.rs to .e2m1x4: a figure shows the layout of rbits",
     "round each value with eight bits", "rely only on the distribution of the values"},
    {"sparse-metadata", "sparse matrix storage: the metadata of a chunk names two places",
     "take one element twice or a wrong one",
     "follow the rule of the element type, in the lanes or columns that the selector names"},
    {"out-of-bounds", "ld, st, copies: inside an allocation", "fault, or touch something else",
     "correct the index or the size"},
    {"misaligned", "operands: aligned to the size of the access", "fault",
     "align the address, or use a narrower access"},
    {"bad-address", "state spaces: an address belongs to one", "fault", "use cvta, mapa or the right space"},
    {"copy-size", "cp.async.bulk: a multiple of 16 bytes; cp.async: a source no larger than the copy",
     "fault or copy", "round the size, or pass the smaller one"},
    {"tensor-map", "only cuTensorMapEncode... and tensormap.replace make a map", "fault or copy nothing",
     "encode the map with the driver, or replace every field"},
    {"checks-exhausted", "no rule: a limit of the simulator's checks", "run",
     "use fewer mbarriers in a CTA, or --no-checks"},
    {"accumulator-early", "tcgen05: wait for the commit before using an accumulator", TMEM_DO,
     "wait for the mbarrier of its tcgen05.commit"},
    {"tensor-memory-race", "tcgen05 memory consistency: wait, fence and barrier between two threads", TMEM_DO,
     "tcgen05.wait, fence::before_thread_sync, barrier, fence::after_thread_sync"},
    {"missing-tcgen05-fence", "tcgen05.fence: before and after the barrier between two threads",
     "mostly order them by the barrier alone", "tcgen05.fence::before_thread_sync and ::after_thread_sync"},
    {"unpipelined-pair", "tcgen05: only the listed pairs are ordered without a commit", TMEM_DO,
     "put a tcgen05.commit and a wait between the two"},
    {"unpipelined-copy", "tcgen05: mma followed by cp is not a pipelined pair",
     "keep the order, and CUTLASS relies on it", "use tcgen05.commit and a wait, or other columns"},
    {"tcgen05-register", "tcgen05.wait::ld has to precede a use of the registers", "mostly delay the use",
     "execute tcgen05.wait::ld before the use"},
    {"pair-alloc", "tcgen05.alloc.cta_group::2: the issuing warp ensures that the peer CTA is launched",
     "mostly wait for the peer", "barrier.cluster.arrive and .wait before the alloc; relaxed is enough"},
    {"pair-dealloc", "tcgen05.dealloc.cta_group::2 is a collective of the pair, after its alloc",
     "end the launch with an unspecified failure", "barrier.cluster.arrive and .wait before the dealloc"},
    {"tensor-memory-freed", "tcgen05.dealloc: all operations on the columns are complete", TMEM_DO,
     "wait for them, and put a barrier before the dealloc"},
    {"tensor-memory-leak", "tcgen05.alloc: every allocation is freed before the kernel ends",
     "hang the next CTA", "execute tcgen05.dealloc"},
    {"tensor-memory-uninitialised", "tensor memory has no value before it is written",
     "read what was left there", "write it first, or do not accumulate in the first MMA"},
    {"tensor-memory-lane", "tcgen05.ld, .st: a warp can access only its own 32 lanes",
     "take the address modulo the lanes of the warp", "start at lane 32 * (warp number modulo 4)"},
};

const char *advice_line(const char *kind, char *to, size_t room) {
    for (size_t i = 0; i < sizeof advice / sizeof *advice; i++) {
        if (strcmp(advice[i].kind, kind) == 0) {
            (void)snprintf(to, room, "PTX: %s. Chips %s. Fix: %s.", advice[i].rule, advice[i].chips,
                           advice[i].fix);
            return to;
        }
    }
    (void)snprintf(to, room,
                   "PTX: the rule named above. Chips fault or give any result. Fix: the operand named above.");
    return to;
}

/* ---- names ---- */

static size_t put(char *to, size_t room, size_t used, const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes && used + 1 < room; i++) {
        to[used++] = text[i];
    }
    to[used < room ? used : room - 1] = '\0';
    return used;
}

/* Writes template arguments while they are numbers, then dots: <128, 64, ...>. */
static size_t put_arguments(const char *at, char *to, size_t room, size_t used) {
    const char *separator = "<";
    while (*at == 'L') { /* a literal: L, a letter for the type, n for minus, digits, E */
        const char *number = at + 2 + (at[1] != '\0' && at[2] == 'n');
        size_t digits = at[1] == '\0' ? 0 : strspn(number, "0123456789");
        if (digits == 0 || number[digits] != 'E') {
            break;
        }
        used = put(to, room, used, separator, strlen(separator));
        used = at[2] == 'n' ? put(to, room, used, "-", 1) : used;
        used = at[1] != 'b'     ? put(to, room, used, number, digits)
               : *number == '0' ? put(to, room, used, "false", 5)
                                : put(to, room, used, "true", 4);
        separator = ", ";
        at = number + digits + 1;
    }
    if (*at != 'E' || *separator == '<') {
        used = put(to, room, used, separator, strlen(separator));
        used = put(to, room, used, "...", 3);
    }
    return put(to, room, used, ">", 1);
}

/* Demangles as much of the Itanium C++ ABI as a reader needs: identifiers with ::, numeric template arguments,
 * no parameters.  Stops at anything else. */
const char *sim_short_name(const char *mangled, char *to, size_t room) {
    const char *at = mangled;
    size_t used = 0;
    if (strncmp(at, "_Z", 2) != 0) {
        (void)put(to, room, 0, at, strlen(at));
        return to;
    }
    at += 2;
    at += strspn(at, "L"); /* a static function */
    bool nested = *at == 'N';
    at += nested;
    while (*at >= '0' && *at <= '9') {
        size_t bytes = 0;
        while (*at >= '0' && *at <= '9' && bytes < room) {
            bytes = 10 * bytes + (size_t)(*at++ - '0');
        }
        if (bytes > strlen(at)) {
            break;
        }
        used = used > 0 ? put(to, room, used, "::", 2) : 0;
        used = strncmp(at, "_GLOBAL__N_", 11) == 0 ? put(to, room, used, "(anonymous)", 11)
                                                   : put(to, room, used, at, bytes);
        at += bytes;
        if (!nested) {
            break;
        }
    }
    if (*at == 'I') {
        used = put_arguments(at + 1, to, room, used);
    }
    if (used == 0) {
        (void)put(to, room, 0, mangled, strlen(mangled));
    }
    return to;
}
