"""The cost model as a page: every figure from the model's JSON."""

from __future__ import annotations

from typing import Any

from scripts.common.markdown import table

TIMED = ("memory", "L2 to SM", "shared", "tensor", "epilogue", "epilogue exposed")


def spaced(shape: str) -> str:
    """M N K."""
    return shape.replace("x", " ")


def percent(ratio: float) -> str:
    """A relative error."""
    return f"{ratio:+.1%}"


def design_rows(costs: dict[str, Any], names: dict[str, str]) -> str:
    """One configuration a shape: counts, bounds, speed of light."""
    head = ["M N K", "tile", "CTAs", "waves", "HBM MB", "L2 MB", "one SM KB", "tensor cycles", "store sectors"]
    head += [f"{name} us" for name in TIMED] + ["speed of light us"]
    rows = []
    for shape, name in names.items():
        row = costs["blackwell"]["rows"][shape][name]
        bounds = row["bounds_us"]
        rows.append(
            [
                spaced(shape),
                f"`{name}`",
                str(row["ctas"]),
                str(row["waves"]),
                f"{costs['memory_bytes'][shape] / 1e6:.1f}",
                f"{row['l2_bytes'] / 1e6:.1f}",
                f"{(row['sm_bytes'] + row['reduction_bytes']) / 1e3:.0f}",
                f"{row['tensor_cycles']:,}",
                f"{row['store_sectors']:,}",
                *(f"**{bounds[key]:.2f}**" if key == row["binding"] else f"{bounds[key]:.2f}" for key in TIMED),
                f"{costs['speed_of_light_us'][shape]:.3f}",
            ]
        )
    return table(head, rows, len(head) - 2)


def path_rows(costs: dict[str, Any], names: dict[str, str]) -> str:
    """What lies before the first product and after the last one."""
    head = [
        "M N K",
        "tile",
        "load warp, to its first stage",
        "epilogue warp",
        "epilogue us",
        "exposed us",
        "reduction KB",
    ]
    head += ["reduction us"]
    rows = []
    for shape, name in names.items():
        row = costs["blackwell"]["rows"][shape][name]
        rows.append(
            [
                spaced(shape),
                f"`{name}`",
                f"{row['prologue_instructions']} instructions",
                f"{row['epilogue_instructions']} instructions",
                f"{row['bounds_us']['epilogue']:.2f}",
                f"{row['bounds_us']['epilogue exposed']:.2f}",
                f"{row['reduction_bytes'] / 1024:.0f}",
                f"{row['predicted']['reduction_us']:.2f}",
            ]
        )
    return table(head, rows, len(head) - 2)


def fit_rows(fits: dict[str, Any], shapes: list[str], used: list[str]) -> str:
    """Each resource as the one that binds."""
    head = ["if this binds", "fixed us", "times its bound", *(spaced(s) for s in shapes), "rms, left out"]
    rows = [
        [
            f"**{name}**" if name in used else name,
            f"{fit['fixed_us']:.2f}",
            f"{fit['slope']:.2f}",
            *(f"{percent(fit['errors'][s])} ({percent(fit['left_out_errors'][s])})" for s in shapes),
            f"{fit['error']:.1%}",
        ]
        for name, fit in fits.items()
    ]
    return table(head, rows, len(head) - 1)


def prediction_rows(costs: dict[str, Any], names: dict[str, str], total: dict[str, float]) -> str:
    """Predictions with their envelope."""
    used = costs["hypotheses"]
    head = [
        "M N K",
        "tile",
        *(f"if {name} binds" for name in used),
        "predicted us",
        "envelope us",
        "an isolated call us",
    ]
    head += ["published us"]
    published = costs["published"]["entries"]["best of each shape"]["us"]
    rows = []
    for shape, name in names.items():
        found = costs["blackwell"]["rows"][shape][name]["predicted"]
        rows.append(
            [
                spaced(shape),
                f"`{name}`",
                *(f"{found['by_hypothesis_us'][key]:.2f}" for key in used),
                f"**{found['us']:.2f}**",
                f"{found['low_us']:.1f} to {found['high_us']:.1f}",
                f"{found['isolated_us']:.2f}",
                f"{published[shape]:.2f}",
            ]
        )
    envelope = f"{total['low_us']:.1f} to {total['high_us']:.1f}"
    mean = costs["geomean"]["published_best_us"]
    rows.append(["geomean", "", *[""] * len(used), f"**{total['us']:.2f}**", envelope, f"{total['isolated_us']:.2f}"])
    rows[-1].append(f"{mean:.2f}")
    return table(head, rows, len(head) - 2)


def every_configuration(costs: dict[str, Any]) -> str:
    """Predictions of all tiles, the lowest of a shape in bold."""
    rows_of = costs["blackwell"]["rows"]
    shapes = list(rows_of)
    best, chosen = costs["blackwell"]["best_by_model"], costs["blackwell"]["chosen"]
    rows = []
    for name in next(iter(rows_of.values())):
        cells = []
        for shape in shapes:
            row = rows_of[shape][name]
            text = f"{row['predicted']['us']:.2f}"
            text = f"**{text}**" if best[shape] == name else text
            cells.append(text + (" chosen" if chosen[shape] == name else "") + f", {row['ctas']} CTAs")
        rows.append([f"`{name}`", *cells])
    return table(["tile", *(spaced(shape) for shape in shapes)], rows, len(shapes))


def break_even(costs: dict[str, Any]) -> str:
    """What the reduction of a split tile of one wave may take for the best tile that does not split to be no faster."""
    rows = []
    for shape, of in costs["blackwell"]["rows"].items():
        best = min((row["predicted"]["us"], name) for name, row in of.items() if not row["reduction_bytes"])
        for name, row in of.items():
            if row["reduction_bytes"] and row["waves"] == 1:
                taken = row["predicted"]["reduction_us"]
                allowed = best[0] - (row["predicted"]["us"] - taken)
                kilobytes = row["reduction_bytes"] / 1024
                rate = f"{row['reduction_bytes'] / allowed * 1e-3:.0f}" if allowed > 0 else "-"
                cells = [
                    spaced(shape),
                    f"`{name}`",
                    f"{kilobytes:.0f}",
                    f"{taken:.1f}",
                    f"{allowed:.1f}",
                    rate,
                    best[1],
                ]
                cells[4] = cells[4] if allowed > 0 else "never"
                rows.append([*cells[:-1], f"`{cells[-1]}`"])
    head = ["M N K", "tile", "KB a CTA", "on an H200 us", "it pays below us", "GB/s an SM", "against"]
    return table(head, rows, 5)


def verdict(costs: dict[str, Any]) -> str:
    """Whether the target is predicted, and what it takes."""
    means = costs["geomean"]
    target, best, chosen = means["target_us"], means["best_by_model"], means["chosen"]
    gains = costs["pdl_gain_us"].values()
    gain = sum(gains) / len(gains)
    said = "predicts" if best["us"] < target else "does not predict"
    return (
        f"The model **{said}** a geometric mean under {target:.0f} us: {best['us']:.2f} us with the tiles that it "
        f"favours, {chosen['us']:.2f} us with those that tile selection chooses; the envelopes reach from "
        f"{min(best['low_us'], chosen['low_us']):.1f} to {max(best['high_us'], chosen['high_us']):.1f} us. With the "
        f"model's tiles {target:.0f} us are met when {means['to_hide_for_target_us']:.2f} us of every call are "
        "hidden or saved, or when two hopes hold together: that bytes into an SM bind, and that reduced accumulators "
        f"move at L2's rate; then the best tiles, which split K, come to {means['hoped_us']:.2f} us. For scale, PDL "
        f"hides {gain:.2f} us of a launch on an H200 ({min(gains):.2f} to {max(gains):.2f})."
    )


def render(costs: dict[str, Any]) -> str:
    """The page."""
    blackwell, hopper, published = costs["blackwell"], costs["hopper"], costs["published"]
    chosen, best = blackwell["chosen"], blackwell["best_by_model"]
    shapes = list(chosen)
    chip = costs["chips"]["blackwell"]
    reduction = costs["reduction"]
    other = [shape for shape in shapes if chosen[shape] != best[shape]]
    parts = [
        "# The Blackwell kernel's cost model, without the chip",
        "Generated by `scripts/cost_model` from [the simulator's counts](cost_model_counters.json); every figure is in "
        "[blackwell_cost_model.json](blackwell_cost_model.json). Counts are *simulated*, rates published, others' "
        "times *judged*, Hopper's *measured:H200*. **No B200 has run this kernel: times of it are predictions.**",
        "## What a call moves and computes",
        f"Rates: {chip['memory_tb_s']} TB/s of device memory; for each SM {chip['l2_to_sm_bytes']} bytes a cycle from "
        f"L2, {chip['shared_bytes']} of shared memory, {chip['special_functions']} special functions; "
        f"{chip['clock_ghz']} GHz ({chip['clock_source']}). Bold: the largest bound. The speed of light is the one "
        "published with the task, at 1.5 GHz. The tiles are those that tile selection chooses for 148 SMs.",
        design_rows(costs, chosen),
    ]
    if other:
        parts += ["The tiles that this model favours, where they are others:"]
        parts += [design_rows(costs, {shape: best[shape] for shape in other})]
    parts += [
        "## Before the first product and after the last",
        "Instructions of one warp, counted. The epilogue takes at least an instruction a cycle of each warp, and its "
        "special functions; the up products of the tail cover a part. The rest of the fixed time below is launch, "
        "barriers, the first bytes' way from device memory, and the drain: not counted, only fitted.",
        path_rows(costs, chosen),
        *([path_rows(costs, {shape: best[shape] for shape in other})] if other else []),
        f"The DSMEM reduction is taken at what it takes on an H200, {reduction['us']:.1f} us for "
        f"{reduction['bytes'] // 1024} KB a CTA, in proportion to the bytes: without its barriers it takes as long "
        "([rounds 24](rounds/0024-split-k-in-a-cluster/round.md) and "
        "[30](rounds/0030-sums-by-async-stores/round.md)). The envelope's low end has it at L2's rate.",
        "## The model, and a check of it on published designs",
        "A call takes a fixed time and a multiple of one resource's bound. The fast public kernels have pairs of CTAs, "
        "256 x 64 tiles at M = 256 and 256 x 128 at 512. Which resource binds them is a hypothesis; each is fitted to "
        "the best public times. Errors are fitted over known; in brackets, foretold by the other three shapes. Kept, "
        "in bold: those at most twice as wrong as the best.",
        table(
            ["M N K", "published us", *(f"{name} us" for name in TIMED[:4])],
            [
                [spaced(s), f"{published['entries']['best of each shape']['us'][s]:.2f}"]
                + [f"{published['bounds_us'][s][name]:.2f}" for name in TIMED[:4]]
                for s in shapes
            ],
            5,
        ),
        fit_rows(published["entries"]["best of each shape"]["fits"], shapes, costs["hypotheses"]),
        "The same model fitted to single entries: the root mean square of what three shapes say of the fourth.",
        table(
            ["entry", *(spaced(s) for s in shapes), *next(iter(published["entries"].values()))["fits"]],
            [
                [label, *(f"{entry['us'][s]:.2f}" for s in shapes)]
                + [
                    f"{fit['error']:.1%} (fixed {fit['fixed_us']:.1f}, x {fit['slope']:.2f})"
                    for fit in entry["fits"].values()
                ]
                for label, entry in published["entries"].items()
            ],
            len(shapes) + 3,
        ),
        "At 1.5 GHz the same kernel takes longer by more than the clock's ratio: that environment differs in something "
        "that this model does not have, so its constants hold for the leaderboard's machines only.",
        "## The model's error: the same for the Hopper kernel, whose times are measured",
        table(
            ["M N K", "tile", "measured us", "memory us", "L2 to SM us", "tensor us"],
            [
                [spaced(s), f"`{hopper['chosen'][s]}`", f"{hopper['measured_us'][s]:.2f}"]
                + [f"{hopper['bounds_us'][s][name]:.2f}" for name in ("memory", "L2 to SM", "tensor")]
                for s in shapes
            ],
            4,
        ),
        fit_rows(hopper["fits"], shapes, hopper["hypotheses"]),
        "Two launches a call, dequantization included, split K at one shape: the fixed time holds all that.",
        "## Predictions",
        "Predicted is the mean of the kept hypotheses, with the reduction at Hopper's rate, less what PDL "
        "gains on an H200. The envelope is no confidence interval: it spans the hypotheses with their errors, a "
        "reduction from L2's rate to Hopper's, and PDL from no gain to the largest one measured. It is as "
        "if all errors had one sign.",
        "As tile selection chooses:",
        prediction_rows(costs, chosen, costs["geomean"]["chosen"]),
        *(
            ["As this model would choose:", prediction_rows(costs, best, costs["geomean"]["best_by_model"])]
            if other
            else []
        ),
        "Every tile:",
        every_configuration(costs),
        "Splitting K trades bytes for a reduction through distributed shared memory, whose rate on a B200 no one has "
        "published; tile selection assumes what an H200 takes. What the reduction may take for a split tile to pay:",
        break_even(costs),
        verdict(costs),
    ]
    return "\n\n".join(parts) + "\n"
