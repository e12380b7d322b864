"""Wrong: the product with B1 alone, no SiLU: what an earlier attempt at this problem tuned for rounds."""

from tests.adversarial.honest.honest import dequantize


def custom_kernel(data):
    data[-1][..., 0] = (
        dequantize(data[0][..., 0], data[3][..., 0]) @ dequantize(data[1][..., 0], data[4][..., 0]).t()
    ).half()
    return data[-1]
