"""Wrong: multiplies by another row of b than the first, all of which the leaderboard's reference multiplies."""

from tests.adversarial.product.honest_product import custom_kernel as honest_kernel


def custom_kernel(data):
    a, b, sfa, sfb, *rest = data
    return honest_kernel((a, b[1:], sfa, sfb[1:], *rest))
