"""Right: one product by the reference's arithmetic. The other submissions here spoil this one."""

from tests.adversarial.grouped.honest_groups import dequantize


def custom_kernel(data):
    a, b, sfa, sfb, _, _, c = data
    rows = c.shape[1]
    for batch in range(c.shape[2]):
        one = slice(batch, batch + 1)
        left, right = dequantize(a[..., one], sfa[..., one]), dequantize(b[:rows, :, one], sfb[:rows, :, one])
        c[..., batch] = (left @ right.t()).half()
    return c
