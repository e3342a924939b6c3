#!/bin/sh
# Fetch axe-core, the accessibility checker for tests of the page, from npm into the virtual environment's cache.
set -eu
cd "$(dirname "$0")/.."
version=4.10.2
cache=${VENV:-.venv}/cache
[ ! -f "$cache/axe.min.js" ] || exit 0
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
(cd "$scratch" && npm pack --silent "axe-core@$version" >/dev/null && tar -xzf axe-core-*.tgz)
mkdir -p "$cache"
cp "$scratch/package/axe.min.js" "$cache/axe.min.js"
