#!/bin/sh
# Finds or makes a Python that can run the package; prints its path on standard output.
# usage: setup.sh find|run|test
#   find: torch.  Only looks: without one it says how to get it.
#   run:  torch.  The Python at hand is used as it is if it has torch, and then nothing is fetched; otherwise torch
#         goes into a virtual environment, and what is to be fetched is told before it is.
#   test: torch, pytest and the group `dev` of pyproject.toml as dev.lock pins it, by version and hash.  What the
#         Python at hand lacks is installed into the environment; without a network the tests that need a missing
#         package other than pytest skip, and without pytest-xdist they run one at a time.
# PYTHON is the Python at hand; unset, the first of `pythons` that is new enough, one with torch before one without.
# NVFP4_VENV is the environment's folder; unset, .venv of the checkout.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
tier=$1
venv=${NVFP4_VENV:-$root/.venv}
pythons="python3 python3.14 python3.13 python3.12 python3.11"
say() { echo "setup: $*" >&2; }

has() { # has PYTHON MODULE...
    probe=$1
    shift
    "$probe" -c 'import importlib.util as u, sys; sys.exit(any(u.find_spec(m) is None for m in sys.argv[1:]))' "$@" 2>/dev/null
}
new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; }
find_python() { # sets at_hand
    if [ -n "${PYTHON:-}" ]; then
        at_hand=$(command -v "$PYTHON" || :)
        [ -n "$at_hand" ] && new_enough "$at_hand" && return
        say "$PYTHON is not Python 3.11 or later; set PYTHON to one"
        exit 1
    fi
    at_hand=
    for name in $pythons; do
        found=$(command -v "$name" || :)
        if [ -z "$found" ] || ! new_enough "$found"; then continue; fi
        ! has "$found" torch || { at_hand=$found && return; }
        at_hand=${at_hand:-$found}
    done
    [ -n "$at_hand" ] || { say "none of $pythons here is Python 3.11 or later; set PYTHON to one" && exit 1; }
}
requirements() { # requirements GROUP: one of pyproject.toml's, a line each
    "$at_hand" -c '
import pathlib, sys, tomllib
print("\n".join(tomllib.loads(pathlib.Path(sys.argv[1]).read_text())["dependency-groups"][sys.argv[2]]))
' "$root/pyproject.toml" "$1"
}
pip_install() { # pip_install ARGUMENT...: with pip's progress bars where a person looks on
    [ -t 2 ] && quiet= || quiet=--quiet
    "$venv/bin/python" -m pip install $quiet --disable-pip-version-check "$@" >&2
}
make_venv() { # make_venv PYTHON [OPTION]...
    maker=$1
    shift
    mkdir -p "$(dirname "$venv")" 2> /dev/null || :
    if ! [ -w "$(dirname "$venv")" ] && ! [ -w "$venv" ]; then
        say "cannot write $venv; set NVFP4_VENV to a folder of your own for it, and BUILD to one for what is built"
        return 1
    fi
    said=$("$maker" -m venv "$@" "$venv" 2>&1) && return
    echo "$said" >&2
    say "$maker cannot make a virtual environment (on Debian and Ubuntu it needs the package python3-venv)"
    rm -rf "$venv"
    return 1
}
install_torch() {
    say "no torch in $at_hand or $venv"
    existed=$([ -d "$venv" ] && echo yes || :)
    make_venv "$at_hand" || exit 1
    requirements run > "$venv/requirements.txt"
    if "$venv/bin/python" "$root/scripts/download_size.py" "$venv/requirements.txt" "$venv" >&2 &&
        pip_install -r "$venv/requirements.txt"; then return; fi
    [ -n "$existed" ] || rm -rf "$venv"
    say "torch could not be installed; set PYTHON to a Python that has it, or pip's PIP_FIND_LINKS to a folder of wheels"
    exit 1
}
each_locked() { # dev.lock's requirements one by one, into a file for each
    awk -v folder="$1" '/^[a-z]/ { file = sprintf("%s/%03d", folder, ++number) } /^[a-z ]/ { print > file }' "$root/scripts/dev.lock"
}
install_test_tools() { # all of dev.lock; of an index that lacks some of it, the rest
    say "installing the development tools of scripts/dev.lock into $venv"
    said=$(pip_install --require-hashes -r "$root/scripts/dev.lock" 2>&1) && return
    echo "$said" >&2
    case $said in
    *"connection broken"*) return ;; # no network
    *"DO NOT MATCH THE HASHES"*)
        say "a package is not the one that scripts/dev.lock names; none was installed"
        exit 1
        ;;
    esac
    parts=$(mktemp -d)
    each_locked "$parts"
    for part in "$parts"/*; do
        pip_install --no-deps --require-hashes -r "$part" 2> /dev/null < /dev/null ||
            say "could not install $(sed -n '1s/ .*//p' "$part")"
    done
    rm -rf "$parts"
}

case $tier in find | run | test) ;; *) say "'$tier' is none of find, run, test" && exit 2 ;; esac
if ! [ "$tier" = find ] || ! has "$venv/bin/python" torch; then find_python; fi
if has "$venv/bin/python" torch; then
    python=$venv/bin/python
elif has "$at_hand" torch; then
    python=$at_hand
elif [ "$tier" = find ]; then
    say "no torch in $at_hand or $venv; \`make setup\` installs it there, or set PYTHON to a Python that has it"
    exit 1
else
    install_torch
    python=$venv/bin/python
fi

if [ "$tier" = test ] && ! has "$python" pytest pytest_timeout xdist hypothesis jsonschema matplotlib rich kernelguard tree_sitter tree_sitter_cuda; then
    # A new environment sees the torch at hand, and keeps what is added away from it.
    if [ "$python" = "$venv/bin/python" ] || make_venv "$python" --system-site-packages; then
        install_test_tools
        ! has "$venv/bin/python" torch pytest || python=$venv/bin/python
    fi
    if ! has "$python" pytest; then
        say "pytest is missing and could not be installed"
        exit 1
    fi
fi
echo "$python"
