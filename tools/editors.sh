#!/bin/sh
# What tests of the debugger's editors need, where Node is: the client that Microsoft writes for tests of debug adapters, and
# what packs the extension of VS Code; into editors/node_modules.
set -eu
cd "$(dirname "$0")/../editors"
npm install --silent --no-audit --no-fund --no-save --no-package-lock --prefix . \
    @vscode/debugadapter-testsupport@1.68.0 @vscode/vsce@3
