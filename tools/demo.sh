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
show render -o "demo/$name.dot" "$trace"
if command -v dot >/dev/null 2>&1; then
    show render -o "demo/$name.svg" "$trace"
    picture="demo/$name.svg    the graph; open it in a browser"
else
    picture="demo/$name.dot    the graph, as DOT text (with Graphviz's \`dot\` installed you get a picture too)"
fi

cat <<END

That was $script, recorded and looked at. Where to look:
  $script    the program: an ordinary script that imports torch
  $trace    what its backward did, event by event
  $picture

Try your own:  $bin/gradscope trace -o mine.json your_script.py
END
