#!/bin/sh
# Run the README's commands in a fresh clone of the last commit, with an empty home, a minimal
# environment, and a path with a space in it.
#
#   tools/fresh.sh              make test, make demo
#   tools/fresh.sh demo         only this
set -eu
cd "$(dirname "$0")/.."
here=$PWD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

mkdir "$scratch/home"
git clone --quiet "$here" "$scratch/fresh clone"
cd "$scratch/fresh clone"
[ $# -gt 0 ] || set -- test demo
for target in "$@"; do
    env -i PATH="$PATH" HOME="$scratch/home" make "$target" </dev/null
done
echo "fresh clone: ok ($*)"
