"""What the page beside published B200 measurements tells of its sets: what was tried, and why rows are far off."""

from __future__ import annotations

from scripts.evidence.clock.row import Row

NOT_YET = """The programs of the E4M3 rows have a reserved type in their instruction descriptor (atype 2), and the
simulator refuses them; so it does N = 80 and 112 of 8-bit integers in a pair, and A in tensor memory where its format
packs four bits. Not compared: cp.async, short bursts of MMAs, and the versions of gpu-mode-kernels' NVFP4 ladders
before the last of each, which can be read page by page at their commit and not fetched as files. Its nvfp4_dual_gemm
v2b and nvfp4_group_gemm v6b stand beside ours in [the Blackwell kernel's
page](../../shark_tank/simulated/blackwell_clock.md), with their published times. fast.cu's matmul_12 has not been run
either."""
RING = """The program is theirs, one CTA alone with K = 131,072. Every 20th of the 592 published rows that name their
stages is compared, in the table's order; the middle one of each three calibrates, with those of two and six stages
that parameters had been fitted on before, and the other 19 validate. That was written down before any of the 19 had
been simulated. They were simulated three times: with parameters fitted at 1.965 GHz (6.8 % in the mean), since what
they showed then led to the clock below with parameters fitted anew on the rows that calibrate (5.8 %), and with boxes
above 8 KB as two of those that calibrate ask. What showed the mechanisms:

- **The clock is 1.3 GHz.** Their plots say so (plot_results.py, CLOCK_MHZ), and the rows say it too: where MMAs set
  the pace a 128 x 256 x 128 stage takes 406.6 ns and its four MMAs, at the 128.5 cycles that the same authors
  publish, 514 cycles; 64 x 256, 64 x 192 and 64 x 128 give 1.27 to 1.28 GHz as well. These rows were read at 1.965
  GHz before, and what was fitted on them was wrong by as much: 80.5 bytes and 1.52 cycles a row are 122 bytes (106 on
  an H200) and one cycle a row, which is a figure that a machine would have. At 1.965 GHz the 19 rows came to 6.8 % in
  the mean, three of them 22 to 31 % too fast: those whose MMAs set the pace.
- **A tensor copy takes its engine 57 cycles, however small it is.** 64 x 16 x 16, x 128 and x 256 with stages enough
  have two, four and eight copies a stage and take 114, 232 and 453 cycles (copy_engine_interval, 8 on an H200). Other
  published rows of the same tiles, that are not in the sample, were looked at for this, not simulated.
- **A try_wait that looks ahead says no at once.** CUTLASS's producer tries the next stage's barrier before it fills
  this one. Suspended there until the phase ends, a ring of n stages had n - 2 under way.
- **A box costs its rows, not its bytes**: one cycle each up to 64 bytes (copy_row_interval).
- **A box of more than 8 KB goes on at its SM's own rate.** copy_latency_l2 had risen by 36 bytes a cycle from 8 to 16
  KB and gone on so, where an SM takes 122. Two rows that calibrate have boxes of 24 and 32 KB: 128 x 192 x 128 of
  three stages goes from 17 to 0 % off, 64 x 256 x 128 from 10 to -1 %; what calibrates from 7.7 to 6.1 % in the mean.

What is left are rows of 64 x 16 to 64 x 64 with five and six stages, 12 to 39 % too slow: a stage's own instructions,
of which PTX has more than the machine code that runs. copy_issue_interval, mbarrier_test_latency and branch_interval
were fitted together (10, 10 and 2 cycles, where an H200 has 45, 40 and 20), on the rows that calibrate alone; only
their sum shows there. Tried: 4, 10 and 1 takes 64 x 16 x 16 from 39 to 31 % and the mean of what calibrates from 6.7
to 5.6; not kept, since no machine waits so little for a barrier. The mechanism that is missing is ptxas' own work:
values that it keeps in registers from stage to stage, and loops that it unrolls. A hold behind a copy has no effect
here."""
LADDER = """The target is the right order and a mean of 12 %. At the chip file's 1.965 GHz it is not met; at the clock
of the machine that timed the kernels it is. How that came about:

- **The machine's clock is one unknown, and one row gives it.** v7c's tensor cores are busy 96 % of its time: it
  tells a clock and little else, and gives 1.34 GHz. It calibrates that clock and nothing else; the ten others
  validate; v7a and v7b are nearly v7c, and without them the eight from v1a to v6 are 9.4 % off in the mean. What
  else speaks for it: cuBLAS has 1,359 TFLOP/s in the same table; 256 tiles of 256 x 256 are 3.46 rounds of 74 pairs
  and take four, so that its tensor cores can be busy 87 % of the time at most, and with the 97 % of that which
  NVIDIA's Tilus tutorial tells of cuBLAS on a B200 they run at 1.34 GHz (its tiles are supposed). main.py lays 146
  calls behind each other for a sample of 10 ms and more and has nvbench keep samples of any clock (sync=True turns
  its limit off, three quarters of the chip's). SemiAnalysis' ring ran at 1.3. Under a cap on power each kernel
  would have a clock of its own; one for all is what one row can give.
- **The clock of another kernel's long run**, 1.58 GHz (attention of 1.45 PFLOP/s that falls to 1.24 within 100 ms at
  1000 W; flashinfer-ai/flashinfer PR 2899), stood here before: v5, v6 and v7c were 14 to 17 % too fast with it. The
  chip file keeps 1.965 GHz, for calls as short as the leaderboard's.
- **Boxes of more than 8 KB** (above, by the ring's rows): v2b, whose stage is a box of 64 and one of 128 KB, goes
  from 23 % too slow to 17 too fast at 1.965 GHz; v2a and v3, with boxes of 16 and 32 KB, from 12 and 10 % too fast
  to 20 and 23. Those boxes had hidden the clock: v3 and v4 seemed to need none. At 1.34 GHz v2b stands on the right
  side of v2a, and v4 of v3.
- **v4** asks L2 for 2.15 GB of tiles: at the 17 TB/s that shared tiles get (below) that is 126 us of its 130, at any
  clock. A fault, mended since (boxes shared where a chip's file has no such thing), had it at 91 us.
- **Narrow rows.** v1a and v1b copy boxes whose rows have 16 bytes, and nothing that calibrates has them. At a cycle
  a row, as rows of 32 and 64 bytes take in the ring, v1a's 12,288 rows a step are 8 % too fast at 1.965 GHz and a
  third too slow at 1.34; what is published of v1a and v1b alike is three quarters of that. Tried: a box whose rows
  set its pace takes that time itself too, not the boxes behind it alone. Then v1b comes out as v1a, as published
  (716 and 727 us, 589 and 716 without); but of the rows that calibrate 64 x 128 x 32 goes from -3 to +8 % and 128 x
  64 x 32 from 2 to 8, their mean from 6.1 to 6.8: out, by those. Missing is a measurement of narrow rows.
- **v5, v6, v7** share nothing but the clock: what the clock names for them are tensor cores, 83 to 96 % busy.
- **The order**: the pairs that stand the wrong way at 1.34 GHz are v1a and v1b, v7a and v7b, v7a and v7c, published
  0.5, 1.8 and 2.5 % apart, of which their README says that results vary quite a bit across runs.

v0 is for another generation's tensor cores."""
SHARING = """\
Four warps of each SM load a tile, wait for it and then for their cluster, round by round; what all SMs get is
compared where two to 32 of them ask for the same tile, with and without clusters and multicast. Tiles of 2 and 4 KB
calibrate one fence and one barrier; no row of theirs had been compared before. Tiles of 8 to 56 KB validate: the 48
rows that stood here at 26.2 % in the mean and 77 at most, each with a smaller tile the faster, are at 4.9 and 16. What
showed the mechanisms:

- **A round ends with a fence.** This page supposed that a round waits for the slowest of four loads. It does not.
  Rounds of 2 KB take 1,830 to 1,940 cycles, whoever shares them, where one load of 2 KB after another takes 968. By the
  program's own counters a warp waits, of the 2,218 cycles of a round of 8 KB shared by 16, 988 for its load and 88 at
  the barrier (stall_long_scoreboard, stall_barrier, a round). What is left is the arrival at the cluster's barrier: it
  releases, and ptxas writes MEMBAR.ALL.GPU before UCGABAR_ARV for that, in a cluster of one as well. Behind copies such
  a fence takes an H200 570 cycles (ring_hand_over_cycles); here it had been 0, as measured nowhere, and the rows that
  calibrate give 705 (fence_gpu_copies). Copies of all warps count, as on an H200. ptxas writes the same before
  fence.acq_rel.gpu and mbarrier.arrive.release.cluster; no row here has one of those behind copies, so that they stay
  free of it (release_behind_copies). Were they not, as on an H200, our kernel, which has one a stage, would take
  11.06 us in the geometric mean of its four shapes and not some 8. No row has a fence behind copies that are still
  on their way (fence_gpu_completed, an H200's).
- **The barrier itself is short.** Pairs and fours take what lone CTAs do: 35 cycles from the last arrival
  (cluster_barrier_wake) where an H200 has 340. The two figures show in these rows as their sum alone, but for that.
- **HBM's latency grows in line with its load**: 680 cycles times the share of HBM that was used in the last thousand
  (hbm_loaded, hbm_loaded_power; an H200's grows by the cube), above L2's latency and 322 cycles. Fitted on the nine
  rows with one load in flight (TMA loads, below), for which copy_latency_hbm had had a point each: those go from 0.4 to
  1.5 % in the mean, the 15 that validate from 6.5 to 2.3 and from 17 to 5 at most. Alone it left shared tiles at 27 %.
- **L2's latency was looked for as the other half, and does not grow**, as far as these rows tell: 16 and 32 KB shared
  by eight to 32 ask L2 for 7 to 13 TB/s and HBM for little, and come out between -4 and 5 %.
- **Who asks for a line on its way has it no sooner than who asked first**, under load too (hbm_loaded_shared, of this
  chip's file alone). It was thought of since tiles shared by two were 13 to 17 % too fast at 8 to 32 KB, now 1 to 10;
  all that validate went from 6.8 to 5.2 %. No figure was chosen by that, and what calibrates stays at 1.2.

Tried and dropped: hbm_latency at L2's and 322 cycles as well, which those wait for who ask for a line on its way: what
calibrates from 1.2 to 3.3 % in the mean. What is left:

- **8 KB, 10 % too fast in the mean.** The published rounds grow by 144 to 274 cycles from 6 to 8 KB and by 3 to 94
  from there to 10; one load of 8 KB in flight is 9 % slower than the line, too. A step that nothing here has.
- **56 KB, no clusters, shared by two, four and eight, 10 to 14 %.** All of it is rates there, L2's 17 TB/s and HBM's
  beside each other, of which the published rows have less than either alone.

The rows had also been simulated before boxes above 8 KB were fitted anew on the ring, which is one CTA alone: 22.6 %
in the mean. The longer latency of large boxes had stood in for a part of the fence."""
PUBLIC_KERNELS = """\
gau-nernst/gpu-mode-kernels, NaregAmirianMegan/NVFP4_Kernels and jIab-b/nvfp4_gemm publish their contest kernels
with times of a B200; [the Blackwell kernel's page](../../shark_tank/simulated/blackwell_clock.md) tells how they
run here. All are too fast. v2b's four shapes are short by 1.6 to 1.9 us each, whether a call takes 9 or 16 us: a
part that is the same for every call, not one of the rates above. Our Hopper kernels' calls are short on an H200's
clock in the same way, by 1.0 to 1.5 us between the first stage and the last store. launch_gap, cta_start and
launch_drain are an H200's (no published B200 measurement tells them apart: 2.04 us a launch of a tiny kernel,
NVIDIA/cccl PR 7391, is what the host takes here too), and the contest's machine has a clock of its own, which is
not published. No parameter could be fitted but on these rows."""
WHY = """First loads are the set that is far off. Each of these launches loads once from memory that has not been
touched, right after L2 was flushed: 512 bytes take some 900 cycles in a ring that runs and 1,993 when they come
first. What lies between is 476 to 2,857 cycles, in no order of the bytes: 1,993 for 512, 1,413 for 1,024. Address
translation and HBM's pages are not modelled, and no figure for either could be found that was published of a B200
(arXiv 2512.02189, which has one of tensor memory, is refuted). A parameter would be fitted on the very rows that
validate: left out. The rates of the loads that follow are right without it. The set was at 42.5 % in the mean while
each size had a latency of its own, which held a part of what a load of all SMs adds; nothing has loaded memory before
these; they were at 50.2 when latency grew with the load (Shared tiles), and are at 44.5 since SMs take turns."""
# Of rows that are far off, the first that fits: set, part of the parameters, words.
REASONS = (
    ("first loads", "", "memory that nothing has touched: address translation, HBM's pages, the spread of latencies"),
    ("sharing", "bytes 8192", "a step between tiles of 6 and 8 KB, supposed to be the copies' own"),
    ("sharing", "", "L2's rate where HBM's is used beside it, as far as known"),
    ("ring", "64x16x16", "its own instructions: ptxas keeps in registers what PTX computes anew each stage"),
    ("ring", "", "its own instructions, of which PTX has more than the machine code"),
    ("own clock", "v1", "boxes whose rows have 16 bytes, which nothing that calibrates has"),
    ("ladder", "v1", "boxes whose rows have 16 bytes, and the clock of the machine that timed it"),
    ("ladder", "", "the clock of the machine that timed it, 1.34 GHz; at that it is in the set below"),
    ("public", "", "the contest's clock and gaps between launches, neither of which is published"),
    ("copies", "bytes 8192", "a step at 8 KB, which shared tiles have too"),
    ("copies", "", "not known"),
)


def reason(row: Row) -> str:
    """Why a row is far off, as far as is known."""
    found = (words for group, part, words in REASONS if group == row.group and part in row.parameters)
    return next(found, "not known")
