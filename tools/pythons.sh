#!/bin/sh
# Run part of the tests on each other Python that this machine has; print one line for each.
#
#   tools/pythons.sh                 the tests below
#   tools/pythons.sh tests/trace -x  other arguments for pytest
#
# PYTHONS: the versions (default: 3.12 3.13 3.14). A version is found as pythonVERSION in PATH, or in ~/.pyenv/versions.
# Its virtual environment is .venv-VERSION, what its tests print is in .venv-VERSION/tests.log.
# Exit code 1: tests failed on some version.
set -u
cd "$(dirname "$0")/.."

# What depends on the version of Python: frames, lines, bytecode, tracebacks, signals, forks, compiled functions.
[ $# -gt 0 ] || set -- tests/record/acts tests/record/notes tests/record/script tests/record/test_run_script.py \
    tests/record/process/test_children.py tests/record/process/test_forks.py tests/record/process/test_handlers.py \
    tests/machine_code

is_version() { "$2" -c "import sys; sys.exit('%d.%d' % sys.version_info[:2] != '$1')" 2>/dev/null; }

find_python() { # sets `python`
    for python in "python$1" "${HOME:-/nowhere}"/.pyenv/versions/"$1".*/bin/python; do
        is_version "$1" "$python" && return
    done
    return 1
}

run_tests() { # on this version, with these arguments of pytest
    version=$1 venv=.venv-$1
    shift
    log=$venv/tests.log
    PYTHON=$python VENV=$venv sh tools/venv.sh dev || return 1
    env -u PYTHONPATH -u PYTHONHOME -u PYTHONDONTWRITEBYTECODE PYTHONNOUSERSITE=1 \
        NUMBA_CACHE_DIR="$PWD/$venv/cache/numba" \
        "$venv/bin/python" -m pytest -q -p no:cacheprovider -n "${WORKERS:-2}" --dist worksteal -m "not slow" "$@" >"$log" 2>&1
    code=$?
    echo "$version: $(tail -n 1 "$log" | tr -d =)"
    [ $code -eq 0 ] || { grep -E '^(FAILED|ERROR)' "$log"; echo "$version: see $log"; }
    return $code
}

failed=0
for version in ${PYTHONS:-3.12 3.13 3.14}; do
    if find_python "$version"; then
        run_tests "$version" "$@" || failed=1
    else
        echo "not found: $version"
    fi
done
exit $failed
