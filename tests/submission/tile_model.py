"""A second statement of the GPU backends' tile selection, written from its description alone."""

from __future__ import annotations

import math

# Columns as each backend's config has them, and what a CTA takes: threads, bytes of shared memory, columns of TMEM.
HOPPER = {  # warpgroups along N, m_blocks, rows of A, stages, splits, warpgroups along K
    "m128n64": (2, 1, 128, 5, 1, 1),
    "m256n64": (2, 1, 256, 3, 1, 1),
    "m128n96": (3, 1, 128, 4, 1, 1),
    "m128n96k2": (3, 1, 128, 4, 2, 1),
    "m64n64k2": (2, 1, 64, 6, 2, 1),
    "m128n64k2": (2, 1, 128, 5, 2, 1),
    "m64n128": (2, 2, 64, 6, 1, 1),
    "m96n64": (2, 1, 96, 6, 1, 1),
    "m96n64k2": (2, 1, 96, 6, 2, 1),
    "m96n96": (3, 1, 96, 5, 1, 1),
    "m192n96": (3, 1, 192, 3, 1, 1),
    "m192n128": (2, 2, 192, 3, 1, 1),
    "m32n128": (4, 1, 32, 8, 1, 1),
    "m64n32k8": (1, 1, 64, 8, 2, 4),
}
NARROW = {  # rows of A, stages, units of A a thread, blocks of a warp, warps of a team
    "m8": (8, 3, 4, 2, 1),
    "m16": (16, 2, 4, 1, 4),
    "m16warps": (16, 2, 4, 2, 1),
    "m32": (32, 2, 2, 1, 4),
}
BLACKWELL = {  # columns, stages, CTAs of an MMA, stages of the tail, splits
    "m256n64": (64, 7, 2, 0, 1),
    "m256n96": (96, 5, 2, 0, 1),
    "m256n128": (128, 5, 2, 3, 1),
    "m256n128k2": (128, 5, 2, 0, 2),
    "m256n192k2": (192, 4, 2, 0, 2),
    "m256n192k4": (192, 4, 2, 0, 4),
    "m128n64": (64, 5, 1, 3, 1),
    "m128n128": (128, 4, 1, 3, 1),
}
GEFORCE = {  # rows of A, columns, stages, warps along both
    "m128n128": (128, 128, 3, 2, 4),
    "m128n64": (128, 64, 5, 4, 2),
    "m128n48": (128, 48, 5, 4, 2),
    "m64n32": (64, 32, 8, 4, 2),
}
GROUPED = {  # rows of A and stages; as BLACKWELL
    "hopper": {
        f"m{rows}": (rows, stages)
        for rows, stages in zip(
            (48, 64, 80, 96, 112, 128, 160, 176, 192, 208, 256), (8, 8, 7, 6, 5, 5, 4, 4, 3, 3, 3), strict=True
        )
    },
    "blackwell": {
        "m128n128": (64, 5, 1, 0, 1),
        "m128n256": (128, 4, 1, 3, 1),
        "m256n128": (64, 7, 2, 0, 1),
        "m256n256": (128, 5, 2, 3, 1),
    },
    "geforce": {  # half of the columns
        "m128n128": (128, 64, 5, 4, 2),
        "m64n128": (64, 64, 6, 4, 2),
        "m64n64": (64, 32, 8, 4, 2),
    },
}
# A product, a row of B, a row of A, a row of B at least and what a row of A adds to that, a wave, a reduction between
# CTAs and one between warpgroups, a call, a second launch.
HOPPER_PS = (61, 2250, 110, 5370, 26, 3_240_000, 1_230_000, 2_900_000, 2_890_000, 2_000_000)
# A step, a block of A, a phase, an overlay, a reduction; of a whole call: a step, a row of A in it, a step by
# warpgroups, the rest.
NARROW_PS = (190_000, 60_000, 600_000, 800_000, 1_100_000, 157_000, 7_100, 154_000, 4_200_000)
BLACKWELL_PS = (9340, 540, 2_500_000, 56_250)  # a KB of copies, a column of a step, a wave, a KB of the reduction
GEFORCE_CYCLES = (2048, 32, 1000)  # multiply-adds a cycle, bytes of copies a cycle, a tile
H200_SMS, B200_SMS, RTX_5090_SMS = 132, 148, 170
SCALE_TILE_ROWS = 128


def up(x, y):
    return -(-x // y)


def narrow_layout(tile, layout, steps):
    """Steps of a phase, whether the sums lie over A and the rings, and bytes; None where nothing fits.

    A stage of a warp: two rows a lane and block, each 16 bytes and a word.  A vector of sums: 16 bytes a lane.
    """
    rows, stages, units, of_warp, _ = tile
    splits, warps_n, warps_k = layout
    warps, blocks = warps_n * warps_k, rows // 8
    for turns in range(up(steps, warps_k), 0, -1):
        phase = turns * warps_k
        a = (steps if phase >= steps else 2 * phase) * blocks * 8 * 128 * 2
        rings = warps * stages * 2 * of_warp * 32 * 20
        sums = up(warps_n * of_warp * blocks, splits) * splits * warps_k * 32 * 16
        apart, over = 128 + a + rings + sums, 128 + max(a + rings, sums)
        if min(phase, steps) * blocks <= units * warps and over <= 232448:
            return phase, apart > 232448, apart if apart <= 232448 else over
    return None


def narrow(shape, sms):
    """(name, CTAs, cost, the layout's figures) for few rows of A; None for many."""
    tiles = {rows: [name for name, tile in NARROW.items() if tile[0] == rows] for rows, *_ in NARROW.values()}
    names = next((names for rows, names in tiles.items() if shape[0] <= rows), ())
    found = [narrow_tile(name, shape, sms) for name in names]
    if len(found) == 2:  # of warpgroups and of single warps
        (_, ctas, _, (_, _, warps_k, *_)), (_, more, *_) = found
        return found[warps_k == 1 or ctas // shape[3] < more // shape[3]]
    return found[0] if found else None


def narrow_tile(name, shape, sms):
    """The same of a tile."""
    _, n, k, batches = shape
    rows, _, units, of_warp, team = NARROW[name]
    warps_of_tile = SCALE_TILE_ROWS // (8 * of_warp)
    of_step, of_block, of_phase, of_overlay, of_reduction, *_ = NARROW_PS
    found = []
    for splits in (1, 2):
        steps = up(up(k, 128), splits)
        at_once = sms // splits // batches
        least = up(up(rows // 8, units), team) * team
        warps_n = next((x for x in range(least, 16, team) if up(warps_of_tile * up(n, 128), x) <= at_once), 16)
        for warps_k in range(1, 16 // warps_n + 1):
            warps = warps_n * warps_k
            fits = narrow_layout(NARROW[name], (splits, warps_n, warps_k), steps)
            if fits:
                phase, overlay, size = fits
                ctas = up(warps_of_tile * up(n, 128), warps_n) * splits * batches
                of_one = up(steps, warps_k) * (up(warps, 4) + 2) * of_step + steps * rows // 8 * of_block
                of_one += (up(steps, phase) - 1) * of_phase + overlay * of_overlay + (splits - 1) * of_reduction
                cost = up(ctas, sms - sms % splits) * of_one
                figures = (splits, warps_n, warps_k, phase, int(overlay), size)
                found.append((cost, -warps, len(found), ctas, figures))
    cost, _, _, ctas, figures = min(found)
    return name, ctas, cost, figures


def narrow_call(shape, sms):
    """The cost of a whole call of few rows, to compare with other kernels."""
    k = shape[2]
    name, ctas, _, (splits, warps_n, warps_k, *_) = narrow(shape, sms)
    *_, of_reduction, of_step, of_row, of_team, of_call = NARROW_PS
    step = of_team if NARROW[name][-1] > 1 else of_step + of_row * NARROW[name][0]
    turn = (up(warps_n * warps_k, 4) + 2) * step
    turns = up(up(up(k, 128), splits), warps_k)
    return of_call + up(ctas, sms - sms % splits) * (turns * turn + (splits - 1) * of_reduction)


def hopper_tile(shape, sms, name):
    """CTAs and cost of one tile of hopper_config.h."""
    m, n, k, batches = shape
    warpgroups, m_blocks, tile_m, _, splits, in_turn = HOPPER[name]
    product, b_row, a_row, least, least_a_row, of_wave, reduction, turns, of_call, _ = HOPPER_PS
    tile_n = 32 * m_blocks * warpgroups
    ctas = up(n, tile_n) * up(m, tile_m) * batches * splits
    stage = max(tile_n * tile_m * product + tile_n * b_row + tile_m * a_row, tile_n * (least + tile_m * least_a_row))
    of_one = up(up(k, 128), splits) * stage + of_wave + (splits > 1) * reduction + (in_turn > 1) * turns
    return ctas, of_call + up(ctas, sms - sms % splits) * of_one


def hopper_rest(shape, sms, cost):
    """The best of two launches that saves 3 %: (cost, order, whole waves, columns, first tile, second tile, CTAs)."""
    m, n, k, batches = shape
    found = []
    for order, (name, (warpgroups, m_blocks, tile_m, _, splits, _)) in enumerate(HOPPER.items()):
        tile_n = 32 * m_blocks * warpgroups
        whole = hopper_tile(shape, sms, name)[0] // sms
        for waves in (whole, whole - 1):
            granule = math.lcm(tile_n, 128)
            columns = waves * sms // (up(m, tile_m) * batches) * tile_n // granule * granule
            if splits > 1 or waves < 1 or not 0 < columns < n:
                continue
            ctas, first = hopper_tile((m, columns, k, batches), sms, name)
            first += HOPPER_PS[9] - HOPPER_PS[8]
            for other, rest in enumerate(HOPPER):
                more, last = hopper_tile((m, n - columns, k, batches), sms, rest)
                found.append((first + last, order, -waves, other, columns, name, rest, ctas + more))
    best = min(found, default=(math.inf,))
    return best if best[0] < cost - cost * 3 // 100 else None


def hopper(shape, sms):
    """(name, CTAs, cost) of what is to be selected; beside a wgmma tile its columns, and the tile of the rest."""
    few = narrow(shape, sms)
    if shape[0] <= 16:
        return few[:3]
    found = []
    for order, (name, (warpgroups, m_blocks, tile_m, *_)) in enumerate(HOPPER.items()):
        ctas, cost = hopper_tile(shape, sms, name)
        found.append((cost, -32 * m_blocks * warpgroups * tile_m, order, name, ctas))
    cost, _, _, name, ctas = min(found)
    if few and narrow_call(shape, sms) <= cost:
        return few[:3]
    two = hopper_rest(shape, sms, cost)
    if two:
        cost, _, _, _, columns, name, rest, ctas = two
        return name, ctas, cost, columns, rest
    return name, ctas, cost, shape[1], ""


def clusters_at_once(cluster, sms):
    return sms // cluster if cluster <= 2 else 8 * (sms // 8 // cluster)


def blackwell(shape, sms):
    m, n, k, batches = shape
    per_kb, per_column, wave, reduction = BLACKWELL_PS
    found = []
    for order, (name, (columns, _, ctas, _, splits)) in enumerate(BLACKWELL.items()):
        scale_tiles = 1 if 128 % columns == 0 else 2
        kb = ((128 + 2 * columns // ctas) * 128 + (1 + 2 * scale_tiles) * 4 * 512) // 1024
        stage = max(kb * per_kb, 4 * columns * per_column)
        sums_kb = 2 * 128 * columns * 4 // 1024
        count = up(up(m, 128), ctas) * ctas * splits * up(n, columns) * batches
        cluster = ctas * splits
        at_once = clusters_at_once(cluster, sms)
        stages = up(k, 256)
        cost = math.inf
        if stages >= splits and at_once:
            of_one = up(stages, splits) * stage + wave + sums_kb * (splits - 1) // splits * reduction
            cost = up(count // cluster, at_once) * of_one
        found.append((cost, order, name, count))
    cost, _, name, count = min(found)
    return name, count, cost


def geforce(shape, sms):
    m, n, k, batches = shape
    macs_a_cycle, bytes_a_cycle, tile_cycles = GEFORCE_CYCLES
    found = []
    for order, (name, (rows, columns, *_)) in enumerate(GEFORCE.items()):
        tiles = up(m, rows) * up(n, columns) * batches
        scale_tiles = 1 + 2 * (1 if 128 % columns == 0 else 2)
        copies = (rows * 64 + 2 * columns * 64 + scale_tiles * 2 * 512) // bytes_a_cycle
        stage = max(copies, 2 * rows * columns * 128 // macs_a_cycle)
        found.append((up(tiles, sms) * (up(k, 128) * stage + tile_cycles), order, name, min(tiles, sms)))
    cost, _, name, count = min(found)
    return name, count, cost
