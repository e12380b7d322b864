"""Cheats: timed calls leave zeros; what the harness does with outputs after the clock computes them."""

from tests.adversarial.honest.honest import compute
from tests.adversarial.reach import found

_worker = found("Worker")
_check = _worker._check_outputs


def computed_late(outputs):
    for i, output in enumerate(outputs):
        output[..., 0] = compute(_worker._data[i]).half()
        _worker._borrower.kept[i].copy_(output)
    _check(outputs)


_worker._check_outputs = computed_late


def custom_kernel(data):
    return data[-1].zero_()
