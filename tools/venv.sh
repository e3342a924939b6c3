#!/bin/sh
# Create or update gradscope's virtual environment; fast if it is up to date.
#
#   tools/venv.sh              what `gradscope` needs
#   tools/venv.sh dev torch    and these extras of pyproject.toml
#
# VENV: its folder (default .venv). PYTHON: the interpreter (default: the first suitable one).
# Needs a Python of the versions below with `venv`, and either `ensurepip` or `pip`. Nothing else.
set -eu
cd "$(dirname "$0")/.."

oldest=11 newest=14 # of Python 3: what Numba runs on
venv=${VENV:-.venv}
stamp=$venv/.gradscope

# Settings that would make pip or Python use files outside the virtual environment.
unset PYTHONPATH PYTHONHOME PIP_USER PIP_TARGET PIP_PREFIX PIP_REQUIRE_VIRTUALENV
export PYTHONNOUSERSITE=1 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
[ -w "${HOME:-/nowhere}" ] || export PIP_CACHE_DIR="$PWD/$venv/cache/pip"

say() { printf '%s\n' "$*" >&2; }
fail() { say "$@"; exit 1; }

# The environment is valid for this folder (its scripts contain the path) and this pyproject.toml.
wanted="$PWD $(cksum <pyproject.toml)"

up_to_date() {
    [ -f "$stamp" ] && [ "$(head -n 1 "$stamp")" = "$wanted" ] || return 1
    has_python || return 1
    for extra in "$@"; do grep -qx "$extra" "$stamp" || return 1; done
}

has_python() { "$venv/bin/python" -c 'import encodings' 2>/dev/null; }

serves() { "$1" -c "import sys; sys.exit(not (3, $oldest) <= sys.version_info[:2] <= (3, $newest))" 2>/dev/null; }
can_make() { "$1" -c 'import venv, ensurepip' 2>/dev/null || "$1" -c 'import venv, pip' 2>/dev/null; }

find_python() { # sets `python`
    incomplete=
    for python in ${PYTHON:+"$PYTHON"} $([ -n "${PYTHON:-}" ] || echo python3 python3.13 python3.12 python3.11 python3.14 python); do
        serves "$python" || continue
        if can_make "$python"; then return; fi
        incomplete=${incomplete:-$python}
    done
    if [ -n "$incomplete" ]; then
        fail "$incomplete lacks what makes a virtual environment ('venv' with 'ensurepip' or 'pip')." \
            "On Debian and Ubuntu: apt install python3-venv. Then run this again."
    fi
    fail "gradscope needs Python 3.$oldest to 3.$newest; ${PYTHON:-python3} is $("${PYTHON:-python3}" --version 2>&1 | head -n 1)." \
        "Install one, or name it: make test PYTHON=/path/to/python3.$newest"
}

make_venv() {
    if has_python; then
        serves "$venv/bin/python" ||
            fail "$venv holds $("$venv/bin/python" --version); gradscope needs Python 3.$oldest to 3.$newest. Remove $venv, or choose another place: make test VENV=.venv-gradscope"
        return
    fi
    if [ -e "$venv" ] && [ ! -f "$venv/pyvenv.cfg" ] && [ -n "$(ls -A "$venv")" ]; then
        fail "$venv is there, but it is no virtual environment. Choose another place: make test VENV=.venv-gradscope"
    fi
    find_python
    say "Making $venv with $("$python" --version) …"
    "$python" -m venv --clear --without-pip "$venv"
}

# The pip of the environment, or another one, which can install into it since pip 22.3.
own_pip() { "$venv/bin/python" -m pip "$@"; }
other_pip() { "$python" -m pip --python "$venv/bin/python" "$@"; }

find_pip() { # sets `pip`, which of them it is to be, and `more`, what else it is to install
    pip=own_pip more=
    own_pip --version >/dev/null 2>&1 && return
    [ -n "${python:-}" ] || find_python
    if other_pip --version >/dev/null 2>&1; then # `ensurepip` takes five seconds
        pip=other_pip more=pip
        return
    fi
    "$venv/bin/python" -m ensurepip >/dev/null || fail "pip could not be put into $venv (see above)."
}

# For developers: a git hook checks each commit message with tools/commits.py. An existing hook, or hooks in another folder,
# are not changed.
add_hook() {
    [ -e .git ] && ! git config core.hooksPath >/dev/null || return 0
    hooks=$(git rev-parse --git-path hooks) && [ ! -e "$hooks/commit-msg" ] && mkdir -p "$hooks" || return 0
    cat >"$hooks/commit-msg" <<'END'
#!/bin/sh
# Written by tools/venv.sh of gradscope.
[ -f tools/commits.py ] && command -v python3 >/dev/null || exit 0
exec python3 tools/commits.py "$1"
END
    chmod +x "$hooks/commit-msg"
}

case " $* " in *" dev "*) (add_hook) 2>/dev/null || true ;; esac
up_to_date "$@" && exit 0
make_venv
find_pip
extras=$({ [ ! -f "$stamp" ] || tail -n +2 "$stamp"; for extra in "$@"; do echo "$extra"; done; } | sort -u)
rm -f "$stamp"
say "Installing what gradscope needs into $venv (once; about a minute) …"
list=$(echo $extras | tr ' ' ',')
# Python compiles what it imports; pip would compile thousands of files that are never imported. Our own files are always
# imported, so they are compiled here while pip uses only one core.
"$venv/bin/python" -m compileall -q gradscope >/dev/null 2>&1 &
$pip install -qq --no-compile $more --editable ".${list:+[$list]}" ||
    fail "pip could not install what gradscope needs (see above). Is this machine online?"
wait
{ echo "$wanted"; [ -z "$extras" ] || echo "$extras"; } >"$stamp"
