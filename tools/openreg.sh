#!/bin/sh
# Build PyTorch's example of a device, torch_openreg, and run the tests of devices on it.
#
#   tools/openreg.sh FOLDER [ARGS...]      FOLDER is test/cpp_extensions/open_registration_extension/torch_openreg
#                                          of PyTorch's source; ARGS are for pytest
#
# VENV: an environment with PyTorch (tools/venv.sh), used for nothing else: PyTorch loads the device whenever it is imported.
# Needs cmake and a C++ compiler. The source is copied, not changed.
set -eu
cd "$(dirname "$0")/.."

fail() { printf '%s\n' "$*" >&2; exit 1; }

source=${1:-}
[ -f "$source/CMakeLists.txt" ] && [ -d "$source/torch_openreg" ] ||
    fail "Name the folder torch_openreg of PyTorch's source: make openreg SOURCE=pytorch/test/cpp_extensions/open_registration_extension/torch_openreg"
shift
for program in cmake c++; do
    command -v "$program" >/dev/null || fail "$program is missing. On Debian and Ubuntu: apt install cmake g++"
done

python=$PWD/$VENV/bin/python copy=$PWD/$VENV/openreg
export TORCH_DEVICE_BACKEND_AUTOLOAD=0
torch=$("$python" -c 'import pathlib, torch; print(pathlib.Path(torch.__file__).parent)')
wanted="$torch $("$python" -c 'import torch; print(torch.__version__)') $(find "$source" -type f -exec cksum {} + | sort | cksum)"
if [ "$(cat "$copy/built" 2>/dev/null)" != "$wanted" ]; then
    echo "Building torch_openreg (a few minutes) …" >&2
    rm -rf "$copy" && cp -r "$source" "$copy" && rm -rf "$copy/build"
    # Its own build configures the same folder again and keeps this: tests of its own need GoogleTest.
    cmake -S "$copy" -B "$copy/build" -DUSE_TEST=OFF -DPYTORCH_INSTALL_DIR="$torch" \
        -DPYTHON_INCLUDE_DIR="$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')" >"$copy/log" 2>&1 &&
        "$python" -m pip install -qq setuptools wheel &&
        "$python" -m pip install --no-build-isolation --no-deps --force-reinstall "$copy" >>"$copy/log" 2>&1 ||
        fail "torch_openreg could not be built; see $copy/log. Its version must fit PyTorch's, $("$python" -c 'import torch; print(torch.__version__)')."
    echo "$wanted" >"$copy/built"
fi
unset TORCH_DEVICE_BACKEND_AUTOLOAD
DEVICES=openreg "$python" -m pytest tests/watched/devices "$@"
