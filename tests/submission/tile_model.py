"""A model of the GPU backends' tile selection, written from the headers' description alone.

Each model takes the backend's table as build/tile_table prints it: its tiles, and the figures that costs are made of.
"""

from __future__ import annotations

import math

H200_SMS, B200_SMS, RTX_5090_SMS = 132, 148, 170
SCALE_TILE_ROWS = 128


def up(x, y):
    return -(-x // y)


def narrow_layout(tile, layout, steps):
    """Steps of a phase, whether the sums lie over A and the rings, and bytes; None if nothing fits.

    A stage of a warp: two rows a lane and block, each 16 bytes and a word.  A vector of sums: 16 bytes a lane.
    """
    splits, warps_n, warps_k = layout
    warps, blocks = warps_n * warps_k, tile["tile_m"] // 8
    for turns in range(up(steps, warps_k), 0, -1):
        phase = turns * warps_k
        a = (steps if phase >= steps else 2 * phase) * blocks * 8 * 128 * 2
        rings = warps * tile["stages"] * 2 * tile["blocks"] * 32 * 20
        sums = up(warps_n * tile["blocks"] * blocks, splits) * splits * warps_k * 32 * 16
        apart, over = 128 + a + rings + sums, 128 + max(a + rings, sums)
        if min(phase, steps) * blocks <= tile["a_units"] * warps and over <= 232448:
            return phase, apart > 232448, apart if apart <= 232448 else over
    return None


def narrow(table, shape, sms):
    """(name, CTAs, cost, the layout's figures) for few rows of A; None for many."""
    tiles = table["narrow_tiles"]
    heights = {tile["tile_m"] for tile in tiles.values()}
    most = max(heights) if shape[0] <= 128 else None  # several tiles of rows
    rows = min((height for height in heights if shape[0] <= height), default=most)
    found = [narrow_tile(table, name, shape, sms) for name, tile in tiles.items() if tile["tile_m"] == rows]
    if len(found) == 2:  # a tile of warpgroups and one of single warps
        (_, ctas, _, (_, _, warps_k, *_)), (_, more, *_) = found
        return found[warps_k == 1 or ctas // shape[3] < more // shape[3]]
    return found[0] if found else None


def narrow_tile(table, name, shape, sms):
    """The same of one tile."""
    m, n, k, batches = shape
    tile, costs = table["narrow_tiles"][name], table["narrow_costs"]
    along_m = up(m, tile["tile_m"]) * batches
    blocks_of_a = tile["tile_m"] // 8
    warps_of_tile = SCALE_TILE_ROWS // (8 * tile["blocks"])
    found = []
    for splits in (1, 2):
        steps = up(up(k, 128), splits)
        at_once = sms // splits // along_m
        least = up(up(blocks_of_a, tile["a_units"]), tile["team"]) * tile["team"]
        units = warps_of_tile * up(n, 128)
        warps_n = next((x for x in range(least, 16, tile["team"]) if up(units, x) <= at_once), 16)
        for warps_k in range(1, 16 // warps_n + 1):
            warps = warps_n * warps_k
            fits = narrow_layout(tile, (splits, warps_n, warps_k), steps)
            if fits:
                phase, overlay, size = fits
                ctas = up(units, warps_n) * splits * along_m
                of_one = up(steps, warps_k) * (up(warps, 4) + 2) * costs["step_ps"]
                of_one += steps * blocks_of_a * costs["a_block_ps"] + (up(steps, phase) - 1) * costs["phase_ps"]
                of_one += overlay * costs["overlay_ps"] + (splits - 1) * costs["reduction_ps"]
                cost = up(ctas, sms - sms % splits) * of_one
                figures = (splits, warps_n, warps_k, phase, int(overlay), size)
                found.append((cost, -warps, len(found), ctas, figures))
    cost, _, _, ctas, figures = min(found)
    return name, ctas, cost, figures


def narrow_call(table, shape, sms):
    """The cost of a whole call of few rows, to compare with other kernels."""
    costs = table["narrow_costs"]
    name, ctas, _, (splits, warps_n, warps_k, *_) = narrow(table, shape, sms)
    tile = table["narrow_tiles"][name]
    alone = costs["call_step_ps"] + costs["call_row_ps"] * tile["tile_m"]
    turn = (up(warps_n * warps_k, 4) + 2) * (costs["call_team_ps"] if tile["team"] > 1 else alone)
    turns = up(up(up(shape[2], 128), splits), warps_k)
    waves = up(ctas, sms - sms % splits)
    return costs["call_ps"] + waves * (turns * turn + (splits - 1) * costs["reduction_ps"])


def tile_n_of(tile):
    return 32 * tile["m_blocks"] * tile["warpgroups_n"]


def hopper_tile(table, shape, sms, name):
    """CTAs and cost of one tile of hopper_config.h."""
    m, n, k, batches = shape
    tile, costs = table["tiles"][name], table["costs"]
    tile_m, tile_n, splits = tile["tile_m"], tile_n_of(tile), tile["split_k"]
    ctas = up(n, tile_n) * up(m, tile_m) * batches * splits
    multiplying = tile_n * tile_m * costs["product_ps"] + tile_n * costs["b_row_ps"] + tile_m * costs["a_row_ps"]
    stage = max(multiplying, tile_n * (costs["b_row_at_least_ps"] + tile_m * costs["a_row_at_least_ps"]))
    of_one = up(up(k, 128), splits) * stage + costs["wave_ps"]
    of_one += (splits > 1) * costs["reduction_ps"] + (tile["warpgroups_k"] > 1) * costs["turns_ps"]
    return ctas, costs["call_ps"] + up(ctas, sms - sms % splits) * of_one


def hopper_rest(table, shape, sms, cost):
    """The best of two launches that saves 3 %: (cost, order, whole waves, columns, first tile, second tile, CTAs)."""
    m, n, k, batches = shape
    found = []
    for order, (name, tile) in enumerate(table["tiles"].items()):
        tile_n = tile_n_of(tile)
        whole = hopper_tile(table, shape, sms, name)[0] // sms
        for waves in (whole, whole - 1):
            granule = math.lcm(tile_n, 128)
            columns = waves * sms // (up(m, tile["tile_m"]) * batches) * tile_n // granule * granule
            if tile["split_k"] > 1 or waves < 1 or not 0 < columns < n:
                continue
            ctas, first = hopper_tile(table, (m, columns, k, batches), sms, name)
            first += table["costs"]["rest_ps"] - table["costs"]["call_ps"]
            for other, rest in enumerate(table["tiles"]):
                more, last = hopper_tile(table, (m, n - columns, k, batches), sms, rest)
                found.append((first + last, order, -waves, other, columns, name, rest, ctas + more))
    best = min(found, default=(math.inf,))
    return best if best[0] < cost - cost * 3 // 100 else None


def hopper(table, shape, sms):
    """(name, CTAs, cost) of what is to be selected; for a wgmma tile also its columns, and the tile of the rest."""
    few = narrow(table, shape, sms)
    if shape[0] <= 16:
        return few[:3]
    found = []
    for order, (name, tile) in enumerate(table["tiles"].items()):
        ctas, cost = hopper_tile(table, shape, sms, name)
        found.append((cost, -tile_n_of(tile) * tile["tile_m"], order, name, ctas))
    cost, _, _, name, ctas = min(found)
    if few and narrow_call(table, shape, sms) <= cost:
        return few[:3]
    two = hopper_rest(table, shape, sms, cost)
    if two:
        cost, _, _, _, columns, name, rest, ctas = two
        return name, ctas, cost, columns, rest
    return name, ctas, cost, shape[1], ""


def clusters_at_once(cluster, sms):
    return sms // cluster if cluster <= 2 else 8 * (sms // 8 // cluster)


def scale_tiles_of(columns):
    """Scale tiles along the rows of B that so many rows of a tile are in."""
    return 1 if SCALE_TILE_ROWS % columns == 0 else 2


def blackwell(table, shape, sms):
    m, n, k, batches = shape
    costs = table["costs"]
    found = []
    for order, (name, tile) in enumerate(table["tiles"].items()):
        columns, ctas, splits = tile["tile_n"], tile["ctas"], tile["split_k"]
        kb = ((128 + 2 * columns // ctas) * 128 + (1 + 2 * scale_tiles_of(columns)) * 4 * 512) // 1024
        stage = max(kb * costs["load_ps_per_kb"], 4 * columns * costs["mma_ps_per_column"])
        sums_kb = 2 * 128 * columns * 4 // 1024
        count = up(up(m, 128), ctas) * ctas * splits * up(n, columns) * batches
        cluster = ctas * splits
        at_once = clusters_at_once(cluster, sms)
        stages = up(k, 256)
        cost = math.inf
        if stages >= splits and at_once:
            of_one = up(stages, splits) * stage + costs["wave_ps"]
            of_one += sums_kb * (splits - 1) // splits * costs["reduction_ps_per_kb"]
            cost = up(count // cluster, at_once) * of_one
        found.append((cost, order, name, count))
    cost, _, name, count = min(found)
    return name, count, cost


def geforce(table, shape, sms):
    m, n, k, batches = shape
    costs = table["costs"]
    found = []
    for order, (name, tile) in enumerate(table["tiles"].items()):
        rows, columns = tile["tile_m"], tile["tile_n"]
        tiles = up(m, rows) * up(n, columns) * batches
        copied = rows * 64 + 2 * columns * 64 + (1 + 2 * scale_tiles_of(columns)) * 2 * 512
        stage = max(copied // costs["load_bytes_per_cycle"], 2 * rows * columns * 128 // costs["macs_per_cycle"])
        cost = up(tiles, sms) * (up(k, 128) * stage + costs["tile_cycles"])
        found.append((cost, order, name, min(tiles, sms)))
    cost, _, name, count = min(found)
    return name, count, cost
