#!/bin/sh
# `make demo`: one small program through every room. Pass another script to see that one.
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

cat <<END

That was $script, recorded and looked at. Where to look:
  $script    the program: an ordinary script that imports torch
  $trace    what its backward did, event by event
  demo/$name.svg    the graph; open it in a browser

Try your own:  $bin/gradscope trace -o mine.json your_script.py
END
