#!/bin/sh
# Install what tests of the editor integrations need, if Node is available, into editors/node_modules: Microsoft's client for
# tests of debug adapters, and the packager of VS Code extensions.
set -eu
cd "$(dirname "$0")/../editors"
npm install --silent --no-audit --no-fund --no-save --no-package-lock --prefix . \
    @vscode/debugadapter-testsupport@1.68.0 @vscode/vsce@3
