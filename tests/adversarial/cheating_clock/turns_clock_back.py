"""Cheats: has the clock of its own worker run backwards; classes are watched, this instance is not."""

from tests.adversarial.honest.honest import custom_kernel  # noqa: F401
from tests.adversarial.reach import found

_core = found("Worker")._borrower._core
_real = _core.round
_core.round = lambda *arguments: _real(*arguments)._replace(total_us=-1.0)
