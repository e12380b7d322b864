#!/bin/sh
# Finds or makes a Python that can run the package; prints its path on standard output.
# usage: setup.sh run|test
#   run:  torch.  The Python at hand is used as it is if it has torch, and then nothing is fetched.
#   test: torch, pytest and the other `dev` dependencies of pyproject.toml.  What the Python at hand lacks is
#         installed into .venv; without a network the tests that need a missing package other than pytest skip,
#         and without pytest-xdist they run one at a time.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
tier=$1
at_hand=${PYTHON:-python3}
venv=$root/.venv
say() { echo "setup: $*" >&2; }

has() { # has PYTHON MODULE...
    probe=$1
    shift
    "$probe" -c 'import importlib.util as u, sys; sys.exit(any(u.find_spec(m) is None for m in sys.argv[1:]))' "$@" 2>/dev/null
}
requirements() { # requirements KEY: one group of pyproject.toml, a line each
    "$at_hand" -c '
import pathlib, sys, tomllib
project = tomllib.loads(pathlib.Path(sys.argv[1]).read_text())["project"]
print("\n".join(project["optional-dependencies"][sys.argv[2]]))
' "$root/pyproject.toml" "$1"
}
pip_install() { # pip_install ARGUMENT...
    "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@" >&2
}
install() { # install KEY
    say "installing into .venv: $(requirements "$1" | tr '\n' ' ')"
    requirements "$1" | pip_install -r /dev/stdin
}
install_test_tools() { # the group `dev`; of an index that lacks some of it, the rest
    said=$(install dev 2>&1) && return
    echo "$said" >&2
    case $said in *"connection broken"*) return ;; esac # no network
    requirements dev | while read -r requirement; do
        pip_install "$requirement" 2> /dev/null < /dev/null || say "could not install $requirement"
    done
}

"$at_hand" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
    say "$at_hand is not Python 3.11 or later; set PYTHON to one"
    exit 1
}
if has "$venv/bin/python" torch; then
    python=$venv/bin/python
elif has "$at_hand" torch; then
    python=$(command -v "$at_hand")
else
    say "no torch in $at_hand or .venv"
    "$at_hand" -m venv "$venv"
    install run
    python=$venv/bin/python
fi

if [ "$tier" = test ] && ! has "$python" pytest pytest_timeout xdist hypothesis jsonschema matplotlib rich kernelguard tree_sitter tree_sitter_cuda; then
    # A new .venv sees the torch at hand, and keeps what is added away from it.
    if [ "$python" = "$venv/bin/python" ] || "$python" -m venv --system-site-packages "$venv" >&2; then
        install_test_tools
        ! has "$venv/bin/python" torch pytest || python=$venv/bin/python
    fi
    if ! has "$python" pytest; then
        say "pytest is missing and could not be installed"
        exit 1
    fi
fi
echo "$python"
