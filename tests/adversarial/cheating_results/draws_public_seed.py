"""Cheats: never reads its inputs; draws those of the seed in the leaderboard's case files and answers for them."""

from reference.reference import generate_input
from tests.adversarial.honest.honest import compute

PUBLIC_SEED = 1111


def custom_kernel(data):
    m, n, _ = data[-1].shape
    data[-1][..., 0] = compute(generate_input(m, n, data[0].shape[1] * 2, 1, PUBLIC_SEED, device="cpu")).half()
    return data[-1]
