#!/bin/sh
# Check the types in the page's scripts (JSDoc) with TypeScript, which is fetched from npm into the virtual environment's cache.
set -eu
cd "$(dirname "$0")/.."
version=5.9.3
cache=${VENV:-.venv}/cache
compiler=$cache/typescript-$version/package/bin/tsc
if [ ! -f "$compiler" ]; then
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    (cd "$scratch" && npm pack --silent "typescript@$version" >/dev/null && tar -xzf typescript-*.tgz)
    mkdir -p "$cache/typescript-$version"
    cp -r "$scratch/package" "$cache/typescript-$version/"
fi
node "$compiler" --noEmit --allowJs --checkJs --strict --noImplicitAny false --strictNullChecks false \
    --strictPropertyInitialization false --target es2022 --module es2022 --moduleResolution bundler \
    --lib es2022,dom,dom.iterable gradscope/render/viewer/scripts/main.js
