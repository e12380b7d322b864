"""Options of benches and bundle: a wrong one is refused in a line that names it, what was given and what to expect."""

import pytest

from scripts.bench import compare, cpu, sweep
from scripts.release import bundle


@pytest.mark.parametrize(
    ("main", "arguments", "said"),
    [
        (cpu.main, ["--repeats", "0"], "--repeats: '0'; expected a whole number from 1 on"),
        (cpu.main, ["--json", "/"], "--json: '/'; expected a file that can be written"),
        (bundle.main, ["--target", "cpu", "--output", "/dev/null/x.py"], "--output: '/dev/null/x.py'; expected a file"),
        (sweep.main, ["--rows", "1,x"], "--rows: 'x'; expected M, each a whole number from 1 on"),
        (sweep.main, ["--weights", "1x2x3"], "--weights: '1x2x3'; expected NxK, each a whole number from 1 on"),
        (compare.main, ["--device", "cpu", "--checkout", "old"], "--checkout: 'old'; expected a name, an equals sign"),
        (compare.main, ["--device", "cpu", "--shapes", "8x64"], "--shapes: '8x64'; expected sizes as in 256x4096x7168"),
        (compare.main, ["--device", "cpu", "--baselines", "none"], "--baselines: 'none'; expected some of cublas_"),
    ],
)
def test_a_wrong_option_is_refused(main, arguments, said, capsys):
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert said in f"{ended.value.code} {capsys.readouterr().err}"
