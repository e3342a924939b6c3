"""Processes that a recorded one starts run unrecorded: the trace says so, how many, and where."""

from __future__ import annotations

import json
import re

from gradscope.trace.shortcomings import ran_elsewhere
from tests.record.running import House

STARTS = """
import multiprocessing, os, subprocess, sys, torch
def work(i):
    (torch.ones(2, requires_grad=True) * i).sum().backward()
class Numbers(torch.utils.data.Dataset):
    def __len__(self): return 4
    def __getitem__(self, i): return torch.tensor(i)
if __name__ == "__main__":
    (torch.ones(2, requires_grad=True) * 2).sum().backward()
    for what in sys.argv[1:]:
        if what == "os.fork":
            for _ in range(2):
                child = os.fork()
                if child == 0:
                    work(1)
                    os._exit(0)
                os.waitpid(child, 0)
        elif what == "python":
            subprocess.run([sys.executable, "-c", "print(5)"], check=True)
            subprocess.run(["true"], check=True)
            subprocess.run("true", shell=True, check=True)
        elif what == "loader":
            print(len(list(torch.utils.data.DataLoader(Numbers(), num_workers=2))))
        elif what == "pool":
            with multiprocessing.get_context("fork").Pool(2) as pool:
                pool.map(work, range(3))
        else:
            process = multiprocessing.get_context(what).Process(target=work, args=(3,))
            process.start()
            process.join()
"""
AFTER = ": this trace does not cover them"


def test_children_are_counted_where_they_were_started(house: House) -> None:
    house.write(STARTS)
    expected = {
        "os.fork": "2 child processes ran unrecorded (2 by fork at script.py:13)",
        "python": "1 child process ran unrecorded (1 by subprocess at script.py:19)",
        "pool": "2 child processes ran unrecorded (2 by fork at script.py:25)",
        "spawn": "1 child process ran unrecorded (1 by spawn at script.py:29)",
        "forkserver": "1 child process ran unrecorded (1 by forkserver at script.py:29)",
    }
    for what, said in expected.items():
        ran = house.gradscope("trace", "script.py", what)

        assert ran.code == 0, (what, ran.err)
        assert ran.err.count(f"gradscope: {said}{AFTER}\n") == 1, (what, ran.err)
        trace = house.recorded()
        assert trace.notes == (), what
        assert house.violations() == [], what
        assert len(trace.meta["children"][0]["pids"]) == trace.meta["children"][0]["count"]

    info = " ".join(house.gradscope("info", "--plain", "trace.json").out.split())
    assert "complete yes, for its own process" in info
    assert f"note {said}{AFTER}" in info
    inspected = " ".join(house.gradscope("inspect", "--plain", "trace.json").out.split())
    assert f"The trace covers one process: {said}{AFTER}" in inspected


def test_workers_of_a_data_loader_are_no_alarm(house: House) -> None:
    house.write(STARTS)

    ran = house.gradscope("trace", "script.py", "loader")

    assert ran.out == "4\n"
    assert "child process" not in ran.err
    assert house.recorded().meta["children"][0]["count"] == 2
    info = " ".join(house.gradscope("info", "--plain", "trace.json").out.split())
    assert "complete yes " in info
    assert "workers 2 data loader workers, unrecorded" in info
    report = json.loads(house.gradscope("inspect", "--json", "trace.json").out)
    assert report["findings"] == []


def test_without_children_nothing_is_said_and_everything_is_put_back(house: House) -> None:
    house.write("""
import os, subprocess, multiprocessing.process as process, gradscope
before = os.fork, subprocess.Popen.__init__, process.BaseProcess.start
with gradscope.record() as recording:
    pass
print(before == (os.fork, subprocess.Popen.__init__, process.BaseProcess.start))
print("children" in recording.trace().meta)
with gradscope.record() as recording:
    if os.fork() == 0:
        os._exit(0)
    os.wait()
print([(each["kind"], each["count"]) for each in recording.trace().meta["children"]])
""")

    assert house.python("script.py").out == "True\nFalse\n[('fork', 1)]\n"


FORKS = """
import os, re, sys, threading, warnings
warnings.simplefilter("always")
def fork():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
fork()
print("and now with a thread", file=sys.stderr)
go_on = threading.Event()
thread = threading.Thread(target=go_on.wait)
thread.start()
fork()
go_on.set()
thread.join()
"""


def test_python_warns_of_a_fork_among_threads_as_it_does_alone(house: House) -> None:
    """From Python 3.12 on it does, and it counted the threads of gradscope."""
    house.write(FORKS)

    said = [ran.err for ran in (house.python("script.py"), house.trace("script.py"))]

    alone, watched = (re.sub(r"pid=\d+", "", text) for text in said)
    assert watched == alone


def test_a_recorded_torchrun_is_answered_with_the_command_that_records_ranks() -> None:
    path = "/site-packages/torch/distributed/elastic/multiprocessing/subprocess_handler.py:68"
    started = {"kind": "subprocess", "line": path, "count": 2, "traces": []}
    other = {"kind": "subprocess", "line": "train.py:3", "count": 2, "traces": []}

    assert ran_elsewhere({"children": [started]}).endswith(
        "; start ranks with `torchrun … -m gradscope trace train.py`"
    )
    assert "torchrun" not in ran_elsewhere({"children": [other]})
