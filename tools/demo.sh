#!/bin/sh
# `make demo`: record a small program and inspect it. ARGS=path/to/script.py chooses another program.
set -eu
cd "$(dirname "$0")/.."
bin=${VENV:-.venv}/bin
script=${1:-samples/first_graph.py}
name=$(basename "$script" .py)
trace=demo/$name.json

show() { # print the command as a person would type it, then run it
    printf '\n$ gradscope %s\n' "$*"
    "$bin/gradscope" "$@"
}

mkdir -p demo
show trace --on gradscope -o "$trace" "$script"
show inspect "$trace"
show timeline "$trace"
show render "$trace"
show view --no-open "$trace"

cat <<END

Recorded $script, an ordinary script that imports torch:
  $trace    every event of its backward
  demo/$name.svg     the graph as a picture
  demo/$name.html    the interactive page: open it in a browser

Your own script:  $bin/gradscope trace your_script.py
                  $bin/gradscope view trace.json
END
