#!/bin/sh
# Finds or makes a Python that can run the package, and prints its path on standard output.
# usage: setup.sh find|help|run|test
#   find: looks for a Python with torch; if there is none, says how to get it.
#   help: looks for the same, else for any Python that is new enough: no program's --help needs torch.
#   run:  uses the Python at hand if it has torch, and then fetches nothing; otherwise prints the download size and
#         installs torch into a virtual environment.
#   test: needs torch, pytest and the group `dev` of pyproject.toml, which dev.lock pins by version and hash.  Installs
#         what the Python at hand lacks into the environment.  Without a network, tests that need a missing package
#         other than pytest skip, and without pytest-xdist tests run one at a time.
# PYTHON is the Python at hand; unset, it is the first of `pythons` that is new enough, one with torch first.
# NVFP4_VENV is the environment's folder; unset, it is .venv in the checkout.
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
requirements() { # requirements GROUP: prints a dependency group of pyproject.toml, one requirement per line
    "$at_hand" -c '
import pathlib, sys, tomllib
print("\n".join(tomllib.loads(pathlib.Path(sys.argv[1]).read_text())["dependency-groups"][sys.argv[2]]))
' "$root/pyproject.toml" "$1"
}
pip_install() { # pip_install ARGUMENT...: shows progress bars on a terminal only
    [ -t 2 ] && quiet= || quiet=--quiet
    "$venv/bin/python" -m pip install $quiet --disable-pip-version-check "$@" >&2
}
make_venv() { # make_venv PYTHON [OPTION]...
    maker=$1
    shift
    mkdir -p "$(dirname "$venv")" 2> /dev/null || :
    if ! [ -w "$(dirname "$venv")" ] && ! [ -w "$venv" ]; then
        say "cannot write $venv; set NVFP4_VENV to a folder of your own, and BUILD to one for the build"
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
    say "torch could not be installed; set PYTHON to a Python that has it, or PIP_FIND_LINKS to a folder of wheels for pip"
    exit 1
}
each_locked() { # each_locked FOLDER: writes each requirement of dev.lock to a file of its own
    awk -v folder="$1" '/^[a-z]/ { file = sprintf("%s/%03d", folder, ++number) } /^[a-z ]/ { print > file }' "$root/scripts/dev.lock"
}
install_test_tools() { # installs dev.lock; if the index lacks some of it, the rest
    say "installing the development tools of scripts/dev.lock into $venv"
    said=$(pip_install --require-hashes -r "$root/scripts/dev.lock" 2>&1) && return
    echo "$said" >&2
    case $said in
    *"connection broken"*) return ;; # no network
    *"DO NOT MATCH THE HASHES"*)
        say "a package does not have the hash in scripts/dev.lock; none was installed"
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

case $tier in find | help | run | test) ;; *) say "'$tier' is none of find, help, run, test" && exit 2 ;; esac
if [ "$tier" = run ] || [ "$tier" = test ] || ! has "$venv/bin/python" torch; then find_python; fi
if has "$venv/bin/python" torch; then
    python=$venv/bin/python
elif [ "$tier" = help ] || has "$at_hand" torch; then
    python=$at_hand
elif [ "$tier" = find ]; then
    say "no torch in $at_hand or $venv; \`make setup\` installs it there, or set PYTHON to a Python that has it"
    exit 1
else
    install_torch
    python=$venv/bin/python
fi

if [ "$tier" = test ] && ! has "$python" pytest pytest_timeout xdist hypothesis jsonschema matplotlib rich kernelguard transformers; then
    # A new environment uses the torch at hand and keeps added packages to itself.
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
