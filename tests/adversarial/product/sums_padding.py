"""Wrong: multiplies by another row of b than the first, all of which the leaderboard's reference multiplies."""

from examples.submission import custom_kernel as honest_kernel


def custom_kernel(data):
    a, b, *rest = data
    return honest_kernel((a, b[1:], *rest))
