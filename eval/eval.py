"""Runs `python -m eval` from any folder, under the leaderboard's name: eval.py MODE CASES_FILE [options]."""

import os
import sys
from pathlib import Path

# Python puts a script's folder first on the module path, where `eval` would be this file and not the package. So the
# interpreter starts again with the checkout on that path and (-P) nothing before it.
if __name__ == "__main__":
    checkout = str(Path(__file__).resolve().parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (checkout, os.environ.get("PYTHONPATH"))))
    options = sys.orig_argv[1 : -len(sys.argv)]
    os.execv(sys.executable, [sys.executable, *options, "-P", "-m", "eval", *sys.argv[1:]])
