/* Of each kind of finding in one line: the rule of the PTX ISA, what chips do, how to mend it. */
#include "advice.h"

#include <string.h>

#define RACE     "memory consistency model: two accesses, one a write, need an order"
#define RACE_DO  "give either result, mostly the expected one"
#define RACE_FIX "a barrier, or an mbarrier's arrive and wait, between the two"
#define MAP      "tensormap.replace, fence.proxy.tensormap: a changed map needs release, acquire and the fence"
#define MISUSE   "fault, hang or count wrongly"
#define TMEM_DO  "give stale or torn columns now and then"

static const struct advice {
    const char *kind, *rule, *chips, *mend;
} advice[] = {
    {"read-before-completion", "asynchronous operations: a result is there after its completion was waited for",
     "read old bytes when the copy is late", "wait for its mbarrier's phase or its group before the read"},
    {"overwrite-while-read",
     "asynchronous operations: their source and readers' memory stays theirs until told",
     "copy or multiply some of the new bytes", "wait for the completion, or for the readers' arrivals, first"},
    {"double-write", "asynchronous operations: two writes need an order", "leave either's bytes",
     "wait for the first one's completion"},
    {"write-race", RACE, RACE_DO, RACE_FIX},
    {"read-after-write-race", RACE, RACE_DO, RACE_FIX},
    {"write-after-read-race", RACE, RACE_DO, RACE_FIX},
    {"global-race", RACE, RACE_DO,
     "a barrier inside a cluster; else a flag: all have stored, release by one; acquire by one, then a "
     "barrier"},
    {"async-read-race", RACE, "copy old bytes now and then", RACE_FIX " and fence.proxy.async"},
    {"missing-proxy-fence", "async proxy: what ordinary stores wrote needs fence.proxy.async",
     "copy old bytes now and then", "fence.proxy.async by the writers, before the barrier"},
    {"elected-signal", "bar.warp.sync orders a warp's lanes; an arrival speaks for its own thread only",
     "run lanes in step mostly", "__syncwarp() before the elected lane's arrival"},
    {"lane-race", "lanes of a warp have no order without bar.warp.sync", "run lanes in step mostly",
     "__syncwarp() between the two"},
    {"uninitialised-read", "ld.shared: memory that nothing wrote has any value",
     "give what an earlier CTA left", "write it first, or do not use what is read"},
    {"cta-exited", "shared::cluster: the other CTA has to exist until the access is complete",
     "fault or touch another CTA's memory", "barrier.cluster.arrive and .wait after the last remote use"},
    {"missing-wgmma-fence", "wgmma.fence orders registers before wgmma.mma_async",
     "use the old register values", "wgmma.fence.sync.aligned after the last write"},
    {"wgmma-register", "wgmma.wait_group comes before a use of its registers", "give partial sums",
     "wgmma.wait_group before the use"},
    {"wgmma-warps", "wgmma: all four warps of a warpgroup execute the same one", MISUSE,
     "make operands and control flow the same in the four warps"},
    {"mbarrier-init-fence", "fence.mbarrier_init or fence.proxy.async before asynchronous operations use it",
     "mostly see the initialisation after a barrier",
     "fence.mbarrier_init.release.cluster by the initialising thread"},
    {"mbarrier-init-race", "mbarrier.init has to come before every use", "use an mbarrier of old bytes",
     "a barrier between the initialisation and the use"},
    {"no-mbarrier", "mbarrier: an object has to be initialised and not invalidated", MISUSE,
     "mbarrier.init first, or the right address"},
    {"mbarrier-arrivals", "mbarrier: no more arrivals than pending ones", "complete a phase too early",
     "make the count at init the number of arrivals"},
    {"mbarrier-count", "mbarrier.init: a count of 1 to 2^20 - 1", MISUSE, "the number of arrivals of a phase"},
    {"mbarrier-init", "mbarrier.init on a live object is undefined", MISUSE, "mbarrier.inval first"},
    {"tx-count", "expect_tx: the bytes expected in a phase are those that arrive in it",
     "hang or go on too early", "expect what the copies of that phase bring"},
    {"multimem", "multimem: the address is that of a multicast object",
     "do it over NVLink, on all devices of the object",
     "take the path without multicast: the device says that it has none"},
    {"no-cluster", "st.async writes to shared::cluster memory", "stop: illegal instruction (an H200)",
     "launch with a cluster, were it of one CTA, or .reqnctapercluster"},
    {"barrier-rank", "cp.async.bulk: the mbarrier lies in the destination's CTA", MISUSE,
     "an mbarrier of the destination's CTA"},
    {"narrow-scope", "memory consistency model: release and acquire need scopes that hold each other's thread",
     "mostly order the two all the same", "scope .cluster or .gpu on both sides"},
    {"missed-phase", "mbarrier.test_wait tells the current or the preceding phase only", "hang now and then",
     "let the next phase's end wait for whoever waits for this one"},
    {"tensor-map-in-use", MAP, "copy by half a map", "wait for the copies that use it before changing it"},
    {"tensor-map-race", MAP, "copy by either map", "a release and an acquire between the change and the copy"},
    {"missing-tensormap-fence", MAP, "copy by a cached old map",
     "fence.proxy.tensormap::generic.acquire before the copy"},
    {"missing-griddepcontrol-wait", "griddepcontrol.wait: only then are the earlier grid's writes visible",
     "read old bytes now and then", "griddepcontrol.wait before the first such access"},
    {"unwaited-predecessor",
     "griddepcontrol.wait: for the previous grid, whose end says nothing of grids before it",
     "read old bytes now and then", "griddepcontrol.wait in some thread of every kernel of the chain"},
    {"queue-race", "CUDA: work of different streams has no order without an event or a wait of the host",
     "give either result", "cudaStreamWaitEvent on an event after the other launch"},
    {"unfinished-store", "cp.async.bulk: the source has to live until it was read", "mostly read it in time",
     "cp.async.bulk.wait_group.read 0 before the warp ends"},
    {"deadlock", "nothing else can run: see who waits for what", "hang",
     "count arrivals and bytes in the table"},
    {"setmaxnreg", "setmaxnreg.inc: blocks until the CTA's pool has the registers", "hang (an H200)",
     "registers at the launch times threads is all there is: setmaxnreg.dec in other warpgroups first"},
    {"divergent-aligned", ".aligned: all threads of the warp execute it", "hang or give anything",
     "bring the warp together, or leave .aligned out"},
    {"assert", "CUDA C: assert", "end the launch with cudaErrorAssert", "what the assertion is about"},
    {"trap", "trap: ends the launch", "end the launch", "the condition that leads there"},
    {"runaway", "a limit of the simulator", "run on", "look for a loop without an end, or raise --limit"},
    {"launch-refused", "CUDA driver API: limits of a launch", "refuse the launch",
     "the shape, memory or arguments named"},
    {"mma-scales",
     "mma.sync, block scaling: byte and thread of the scales are of the listed ones, the same in all lanes",
     "multiply by other scales", "byte 0 of four, 0 or 2 of two, any of one; thread 0 or 1 of A, 0 to 3 of B"},
    {"cvt-random-bits", "cvt.rs to .e2m1x4: the layout of rbits is in a figure",
     "round with eight bits a value", "rely on the values' distribution alone"},
    {"sparse-metadata", "sparse matrix storage: the two places of a chunk's metadata",
     "take one element twice or the wrong one",
     "metadata made by the rule of the element type, in the lanes or columns that the selector names"},
    {"out-of-bounds", "ld, st, copies: inside an allocation", "fault, or touch something else",
     "the index or the size"},
    {"misaligned", "operands: aligned to the access", "fault", "the address, or a narrower access"},
    {"bad-address", "state spaces: an address belongs to one", "fault", "cvta, mapa or the right space"},
    {"copy-size", "cp.async.bulk: a multiple of 16 bytes; cp.async: a source of no more", "fault or copy",
     "round the size, or pass the smaller one"},
    {"tensor-map", "cuTensorMapEncodeTiled, tensormap.replace: only these make a map", "fault or copy nothing",
     "encode it with the driver, or replace every field"},
    {"checks-exhausted", "a limit of the simulator's checks", "run",
     "fewer mbarriers in a CTA, or --no-checks"},
    {"accumulator-early", "tcgen05: an accumulator is there after its commit was waited for", TMEM_DO,
     "wait for the mbarrier of its tcgen05.commit"},
    {"tensor-memory-race", "tcgen05 memory consistency: wait, fence and barrier between two threads", TMEM_DO,
     "tcgen05.wait, fence::before_thread_sync, barrier, fence::after_thread_sync"},
    {"missing-tcgen05-fence", "tcgen05.fence: before and after the barrier between two threads",
     "mostly order them by the barrier alone", "tcgen05.fence::before_thread_sync and ::after_thread_sync"},
    {"unpipelined-pair", "tcgen05: only the listed pairs are ordered without a commit", TMEM_DO,
     "tcgen05.commit and a wait between the two"},
    {"unpipelined-copy", "tcgen05: mma then cp is none of the pipelined pairs",
     "keep the order, as CUTLASS relies on", "tcgen05.commit and a wait, or other columns"},
    {"tcgen05-register", "tcgen05.wait::ld comes before a use of the registers", "mostly hold the use back",
     "tcgen05.wait::ld before the use"},
    {"pair-alloc", "tcgen05.alloc.cta_group::2: the issuing warp makes sure that the peer CTA is launched",
     "wait for the peer mostly", "barrier.cluster.arrive and .wait, relaxed will do, before the alloc"},
    {"pair-dealloc", "tcgen05.dealloc.cta_group::2 is a collective of the pair, after its alloc",
     "end the launch with an unspecified failure", "barrier.cluster.arrive and .wait before the dealloc"},
    {"tensor-memory-freed", "tcgen05.dealloc: all operations on the columns are over", TMEM_DO,
     "wait for them and a barrier before dealloc"},
    {"tensor-memory-leak", "tcgen05.alloc: every allocation is freed before the kernel ends",
     "hang the next CTA", "tcgen05.dealloc"},
    {"tensor-memory-uninitialised", "tensor memory holds nothing before it is written",
     "give what was left there", "write it, or do not accumulate the first time"},
    {"tensor-memory-lane", "tcgen05.ld, .st: a warp reaches its own 32 lanes",
     "take the address modulo its lanes", "lane 32 times the warp's number modulo 4"},
};

const char *advice_line(const char *kind, char *to, size_t room) {
    for (size_t i = 0; i < sizeof advice / sizeof *advice; i++) {
        if (strcmp(advice[i].kind, kind) == 0) {
            (void)snprintf(to, room, "PTX: %s. Chips %s. Mend: %s.", advice[i].rule, advice[i].chips,
                           advice[i].mend);
            return to;
        }
    }
    (void)snprintf(to, room,
                   "PTX: the rule named above. Chips fault or give anything. Mend: the operand named.");
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

/* A template's arguments as far as they are numbers, the rest as dots: <128, 64, ...>. */
static size_t put_arguments(const char *at, char *to, size_t room, size_t used) {
    const char *separator = "<";
    while (*at == 'L') { /* a literal: its type, a letter; n for minus; digits; E */
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

/* The Itanium C++ ABI's names, as far as a reader needs them: identifiers with ::, arguments of templates that
 * are numbers, no parameters.  Whatever else a name has in it ends it. */
const char *short_name(const char *mangled, char *to, size_t room) {
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
