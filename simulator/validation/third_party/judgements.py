"""Rulings on findings in third-party kernels, and reasons for kernels that do not run."""

from __future__ import annotations

import re
from dataclasses import dataclass

# The rulings with their meaning.
RULINGS = {
    "true": "the kernel breaks a rule of PTX",
    "practice": "PTX does not guarantee it, but common practice relies on it: a review",
    "follows": "a consequence of another finding",
    "false": "the kernel is right and the simulator is wrong",
}


@dataclass(frozen=True)
class Judgement:
    """A ruling on findings of one kind; the patterns must match the project, the kernel's name and the source line."""

    project: str
    kind: str
    ruling: str
    sentence: str
    name: str = ""
    line: str = ""


OWN_HOST = "fast.cu|learn-cuda|gpu-mode-kernels|NVFP4_Kernels|nvfp4_gemm|ThunderKittens"
BENCHMARKS = "microbench-blackwell"
JUDGEMENTS = (
    Judgement(
        "", "missing-tcgen05-fence", "practice",
        "PTX orders tcgen05's reads of shared memory, loads of tensor memory and dealloc after another thread's work "
        "only through tcgen05.fence; Triton, CUTLASS and DeepGEMM leave it out as well",
    ),
    Judgement(
        "", "mbarrier-init-fence", "practice",
        "no fence between mbarrier.init and the first TMA or commit on it, only a barrier of the CTA: all of Triton",
        "", r"kernels\.py",
    ),
    Judgement(
        OWN_HOST, "mbarrier-init-fence", "true",
        "no fence between mbarrier.init and the first TMA on it; chips forgive it",
    ),
    Judgement(
        "triton", "write-race", "practice",
        "warps write the same words with the same values: replicated layouts, and constants of the warp-specialised "
        "prologue; a race by the letter of PTX, with one outcome",
    ),
    Judgement(
        "", "unpipelined-copy", "practice",
        "tcgen05.cp onto scale columns that an earlier cp or mma of the same thread uses: no pipelined pair in PTX, "
        "but common practice",
    ),
    Judgement(
        "", "tcgen05-register", "practice",
        "a register of tcgen05.ld is used before wait::ld, since the compiler moved the use: asm without a dependence "
        "(Triton's cvt stands before its wait)",
    ),
    Judgement(
        BENCHMARKS, "missed-phase", "true",
        "all threads wait for each MMA's phase, and the thread that issues the next waits for none of them: a warp "
        "that comes late misses a phase and waits forever",
    ),
    Judgement(
        BENCHMARKS, "missing-proxy-fence", "true",
        "ordinary stores fill the operands in shared memory, with a barrier and no fence.proxy.async before the MMA",
    ),
    Judgement(
        BENCHMARKS, "tensor-memory-uninitialised", "true",
        "the first MMA adds to an accumulator, or takes scale factors, that nothing has written: only its time counts",
    ),
    Judgement(
        BENCHMARKS, "tensor-memory-race", "true",
        "tcgen05.st of A or of the scale factors without tcgen05.wait::st before the barrier and the MMA",
    ),
    Judgement(
        BENCHMARKS, "tensor-memory-freed", "true",
        "the same tcgen05.st, which nothing waits for before the dealloc either",
    ),
    Judgement(
        BENCHMARKS, "tensor-memory-lane", "practice",
        "every warp names lane 0 in tcgen05.st's address: PTX wants its own lanes, and chips seem to take those",
    ),
    Judgement(
        BENCHMARKS, "mbarrier-init-fence", "true",
        "no fence between mbarrier.init and the first bulk copy on it, only a barrier of the CTA; chips forgive it",
    ),
    Judgement(
        f"{OWN_HOST}|{BENCHMARKS}", "deadlock", "follows", "follows from missed-phase where the schedule runs into it",
    ),
    Judgement(
        "learn-cuda|nvfp4_gemm", "missed-phase", "true",
        "one mbarrier phase can complete twice before a slower warp looks at it: every warp waits for a barrier that "
        "warp 0 alone re-arms, and nothing keeps warp 0 from going round again; a TMA's latency hides it on a chip; "
        "SentryWard says the same of v1 to v3 (`SENTRYWARD.md`)",
    ),
    Judgement(
        "ThunderKittens", "missed-phase", "true",
        "level 6 for the B200 keeps the thread that loads behind the MMA, not behind the other warps: all wait for its "
        "barrier, and a slower one may find its phase gone twice",
        "level 6",
    ),
    Judgement(
        "ThunderKittens", "missed-phase", "true",
        "all warps of the template's producer wait for the ring's barriers, one thread of them loads, and nothing keeps"
        " it from the next round: a warp that lags two rounds behind waits for a phase that is gone",
        "_h100",
    ),
    Judgement(
        "ThunderKittens", "mbarrier-init", "practice",
        "whole warps execute mbarrier.init of one object, with one count and before anyone uses it: PTX leaves a "
        "second init undefined, chips take it, and the simulator goes on",
    ),
    Judgement(
        "ThunderKittens", "cta-exited", "true",
        "the second CTA's producers arrive at the first one's schedule_finished for the last query, and the first CTA "
        "waits for the second one's epilogue alone before it ends: the arrival may reach a CTA that is gone",
    ),
    Judgement(
        OWN_HOST, "pair-alloc", "practice",
        "tcgen05.alloc.cta_group::2 with no cluster barrier before it to show that the other CTA runs; PTX asks the "
        "issuer to make sure, and on chips alloc waits for the other CTA",
    ),
    Judgement(
        "gpu-mode-kernels", "tensor-map", "true",
        "the host code writes addresses and sizes into undocumented places of encoded tensor maps: a CUtensorMap is "
        "opaque, and only chips know what such a map means",
    ),
    Judgement(
        "gpu-mode-kernels", "tensor-memory-uninitialised", "practice",
        "a tile with few rows skips the second MMA and still loads its columns; none of the values is stored",
    ),
    Judgement(
        "cutlass", "sparse-metadata", "practice",
        "CUTLASS's compressor leaves 0, one place twice, for a chunk of zeros; PTX gives such metadata no meaning, and "
        "two stored zeros are nothing wherever they are",
    ),
    Judgement(
        OWN_HOST, "tensor-memory-lane", "practice",
        "a CTA has lanes 0 to 127, of which a warp reaches its own 32: in a pair two authors use 128 to 255, in s_128t "
        "and sub_tcgen2 every warp names lane 0; PTX allows neither, and chips seem to take the warp's own lanes, as "
        "the simulator does",
    ),
    Judgement(
        "DeepGEMM", "tensor-memory-lane", "practice",
        "the epilogue's warps all name lane 0: by its authors' note beside the load the hardware ignores a warp's bits "
        "of the lane, which is how the simulator takes it; PTX says that a warp names its own lanes",
    ),
    Judgement(
        "DeepGEMM", "read-after-write-race", "true",
        "tcgen05.alloc writes its column in warp 2, and the epilogue reads it behind barrier.cluster.arrive.relaxed "
        "alone, which orders no memory; only an assertion reads it, so that no value depends on it",
    ),
    Judgement(
        "NVIDIA/cutlass", "global-race", "practice",
        "the comparison's kernel begins its loop of atomicCAS with an ordinary load of the same word: what it misses "
        "the exchange finds",
        "example 88",
    ),
    Judgement(
        "nvidia-cutlass", "read-after-write-race", "true",
        "the scheduler's warp arrives before it stores that there is no more work, and completes the bytes with "
        "mbarrier.complete_tx, which is relaxed: nothing releases the store to the warps that wait",
        "example 79b",
    ),
    Judgement(
        "cutlass", "mbarrier-init-race", "practice",
        "the barrier for the end of tensor memory is initialised after the pipelines' fences, with the relaxed cluster "
        "arrive alone behind it: no fence.mbarrier_init by the thread that initialised it",
    ),
    Judgement(
        "nvfp4_gemm", "tensor-memory", "true",
        "in an order that PTX allows a warp gives the columns back before the others have loaded them: no barrier "
        "stands before dealloc",
    ),
    Judgement(
        "NVFP4_Kernels", "tensor-memory", "true",
        "with dealloc at once warps read columns that warp 0 gave back: the barrier before dealloc is commented out",
    ),
    Judgement(
        "NVFP4_Kernels|nvfp4_gemm", "tensor-memory-freed", "true",
        "dealloc before the other warps' loads are known to be complete: the barrier before it is commented out "
        "(NVFP4_Kernels) or stands behind it (s_128t)",
    ),
    Judgement("", "tensor-memory-leak", "follows", "follows from a launch that an error ended"),
    Judgement(
        "nvfp4_gemm", "tensor-memory-race", "true",
        "the same cp from another thread, with no order between the two (equal bytes); in sub_tcgen2 tcgen05.st of the "
        "scales, and an MMA of another warp on them without wait::st and fences",
    ),
    Judgement(
        "nvfp4_gemm", "tensor-memory-uninitialised", "true",
        "an early version's MMA names scale columns that nothing has written",
    ),
    Judgement(
        "nvfp4_gemm", "write-after-read-race", "true",
        "warps refill shared memory with no barrier behind the other warps' reads",
    ),
    Judgement(
        "fast.cu", "missing-proxy-fence", "true", "ordinary stores, then a TMA store of them, without fence.proxy.async"
    ),
    Judgement(
        "fast.cu", "cta-exited", "true",
        "consumers arrive on the empty barriers of both CTAs of the cluster to the last, and no cluster barrier keeps "
        "a CTA until its neighbour has done so: one may arrive in the memory of a CTA that is gone",
    ),
    Judgement(
        "", "unfinished-store", "practice", "the kernel ends without waiting for its TMA store to read shared memory"
    ),
    Judgement(
        "nvfp4_gemm", "overwrite-while-read", "true",
        "every thread copies the scales to tensor memory, one thread's commit is waited for: TMA refills the stage "
        "while the others' copies may still read it",
    ),
    Judgement(
        "nvfp4_gemm", "read-before-completion", "true",
        "a warp that lags copies scales that the next round's TMA is already replacing",
    ),
)  # fmt: skip

# Kernels that are not built or do not run: project, kernel's name, reason.
REASONS: tuple[tuple[str, str, str], ...] = ()

# Texts of the corpus that ptxas assembles and the simulator refuses: a pattern of its message, and why that is right.
CORPUS_REASONS = (
    ("wmma", "wmma is out of scope: Volta's interface, which nvcc does not make of Hopper's and Blackwell's kernels"),
    ("m8n8k4", "Volta's mma.sync.m8n8k4 is out of scope"),
    ("the destination is no register", "a .func whose parameters are .reg: PTX of before its ABI"),
    (r"\.b1\.", "wgmma of single bits is out of scope"),
)


def corpus_reason(why: str) -> str | None:
    """The sentence for a text that the simulator refuses."""
    return next((sentence for pattern, sentence in CORPUS_REASONS if re.search(pattern, why)), None)


def judgement(project: str, name: str, finding: dict) -> Judgement | None:
    """The first judgement that fits a finding."""
    for each in JUDGEMENTS:
        fits = each.kind == finding["kind"] and re.search(each.project, project) and re.search(each.name, name)
        if fits and re.search(each.line, finding["source"]):
            return each
    return None


def reason(project: str, name: str) -> str | None:
    """The sentence for a kernel that does not run."""
    return next((why for p, n, why in REASONS if re.search(p, project) and re.search(n, name)), None)
