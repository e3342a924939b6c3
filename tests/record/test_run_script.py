"""Under `gradscope trace` a script is what it is under `python`."""

from __future__ import annotations

import os
import py_compile
import re
import signal
import stat
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol
from zipfile import ZipFile

import pytest

from gradscope import cli
from tests.record.running import GRADSCOPE, House, Ran

LIVES = """# -*- coding: latin-1 -*-
'''what I am'''
import __main__, ascii_neighbour, asyncio, gc, inspect, io, neighbour, os, pickle, sys
import threading, warnings
print("what it knows", sorted(globals()), __name__, __file__, __cached__, __doc__)
print(bool(__spec__), __package__, type(__builtins__), sys.path[0], sys.path.count(sys.path[0]))
print("arguments", sys.argv)
print("nobody's hook", threading.excepthook is threading.__excepthook__)
print("frozen", gc.get_freeze_count() < 1000)  # some by Python 3.12 itself
print("reads", input(), sys.stdin.read())
print("encodings", ascii("caf\xe9"), ascii_neighbour.WORD)
print("imports", neighbour.__name__, neighbour.VALUE)
x: int = 1
print("is __main__", __main__.x, __main__.__dict__ is globals(), __annotations__)
class Thing: pass
print("pickles", type(pickle.loads(pickle.dumps(Thing()))) is Thing)
def f(n):
    return f(n + 1)
print("its source", inspect.getsource(f))
try:
    f(0)
except RecursionError:
    print("recurses")
try:
    sys.exit(3)
except SystemExit as exit:
    print("counts its exits", exit.code)
async def answer(): return 42
print("runs asyncio", asyncio.run(answer()))
warnings.warn("old", DeprecationWarning)
for i in range(20000):
    print("prints a lot", i)
out, sys.stdout = sys.stdout, io.StringIO()
print("elsewhere")
sys.stdout = out
import atexit
atexit.register(print, "bye")
os.remove(__file__)
os.chdir("/")
print("without its file and folder", os.getcwd())
""".encode("latin-1")

THREADS = """
import threading, time
from concurrent.futures import ThreadPoolExecutor
def late():
    time.sleep(0.2)
    print("late")
    raise ValueError("in a thread")
threading.Thread(target=late, name="worker").start()
threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
pool = ThreadPoolExecutor(2)
pool.submit(lambda: (time.sleep(0.4), print("worked")))
print("main")
"""

CHILDREN = """
import multiprocessing, os
def double(x): return 2 * x
child = os.fork()
print("child " * (child == 0), end="", flush=True)
if not child:
    raise SystemExit(4)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(pool.map(double, [1, 2, 3]))
"""

LOOKS_AROUND = """
import helper, sys
print(sorted(globals()), __file__, __spec__.name, repr(__package__), sys.argv, sys.path[0])
"""

ENDS = {
    "a number": "import sys; sys.exit(7)",
    "nothing": "import sys; sys.exit()",
    "true": "import sys; sys.exit(True)",
    "a large number": "import sys; sys.exit(256 + 5)",
    "a negative number": "import sys; sys.exit(-1)",
    "a text": "import sys; print('out'); sys.exit('the end')",
    "an object": "raise SystemExit([1, 2])",
    "a text without a stream": "import sys; sys.stderr = None; sys.exit('the end')",
    "a text for a closed stream": "import sys; sys.stderr.close(); sys.exit('the end')",
    "os._exit": "import os; print('lost in the buffer'); os._exit(9)",
    "an exception": "def inner():\n    raise ValueError('no')\n\n\ninner()\n",
    "a cause": "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise ValueError('no') from e",
    "a context": "try:\n    1 / 0\nexcept ZeroDivisionError:\n    raise ValueError('no')",
    "a group": "raise ExceptionGroup('many', [ValueError(1), TypeError(2)])",
    "no words": "class E(Exception):\n    def __str__(self):\n        raise TypeError\nraise E",
    "no Python": "print('never')\nif x = 1:\n    pass\n",
    "an open bracket": "print((1,",
    "no UTF-8": b"x = 1\nname = 'caf\xe9'\n",
    "no UTF-8 below": b"x = 1\ny = 2\n\nname = 'caf\xe9'\n",
    "a comment that is no UTF-8": b"x = 1\n# caf\xe9\nprint(x)\n",
    "not what it declares": b"# coding: utf-8\nname = 'caf\xe9'\n",
    "no such encoding": b"# coding: klingon\nx = 1\n",
    "Latin-1": b"# coding: latin-1\nprint(ascii('caf\xe9'))\n",
    "a byte order mark": b"\xef\xbb\xbfprint('bom')",
    "no text": "",
    "an excepthook": "import sys\nsys.excepthook = lambda *e: print('mine', e[1])\n1 / 0",
    "a broken hook": "import sys\ndef h(*e): raise KeyError('h')\nsys.excepthook = h\n1 / 0",
    "a closed output": "import sys\nprint('x')\nsys.stdout.close()",
    "no output": "import sys\nsys.stdout = sys.stderr = None\nprint('nowhere')",
    "a removed directory": (
        "import os, tempfile\nd = tempfile.mkdtemp()\nos.chdir(d)\nos.rmdir(d)\n"
        "def f():\n    raise OSError('gone')\nf()"
    ),
}
NEIGHBOUR = "VALUE = 42\n"


def assert_same(house: House, script: str | bytes, *arguments: str) -> None:
    """Run under Python and under `gradscope trace`, a script does the same."""
    house.write(NEIGHBOUR, "neighbour.py")
    house.write("WORD = 'neighbour'", "ascii_neighbour.py")
    house.write(script)
    alone = house.python("script.py", *arguments, input="first\nsecond\n")
    house.write(script)
    traced = house.trace("script.py", *arguments, input="first\nsecond\n")

    assert traced == alone


AT_EXIT = """
import atexit, sys
@atexit.register
def last(): print("last")
@atexit.register
def hook_fails(): sys.exit(4)
@atexit.register
def sets_hook():
    def hook(said): raise TypeError(said.exc_type)
    sys.unraisablehook = hook
@atexit.register
def fails():
    try:
        print(1 + (1 / 0))
    except ZeroDivisionError as error:
        raise ValueError("at the end") from error
def never(): print("never")
atexit.register(never); atexit.register(print, "bye", end="!")
atexit.unregister(never)
print("main")
"""


def test_what_a_script_wants_done_at_its_end_is_done(house: House) -> None:
    house.write(AT_EXIT)
    alone, traced = house.python("script.py"), house.trace("script.py")

    assert (traced.out, traced.code) == (alone.out, 0)
    places = re.compile(r"0x[0-9a-f]+")
    assert places.sub("", traced.err) == places.sub("", alone.err)


def test_a_script_begins_with_the_runtime_as_it_is_at_first(house: House) -> None:
    house.write("import torch; print(torch.ones(1).dtype, torch.rand(1).item())")
    house.write(
        "from pathlib import Path\nimport gradscope.runtime as torch\n"
        "from gradscope.record.run_script import TraceOptions, run_script\n"
        "torch.set_default_dtype(torch.float64)\n"
        "for i in range(2):\n"
        "    torch.manual_seed(i)\n"
        "    run_script(TraceOptions('script.py', on='gradscope', output=Path('trace.json')))\n"
        "print(torch.initial_seed(), torch.ones(1).dtype)\n",
        "twice.py",
    )
    first = house.trace("script.py").out

    assert house.python("twice.py").out == f"{first}{first}1 torch.float64\n"


def test_a_script_lives_as_under_python(house: House) -> None:
    assert_same(house, LIVES, "-o", "--level", "x", "", "a b")


def test_a_scripts_threads_live_to_their_end(house: House) -> None:
    assert_same(house, THREADS)


def test_a_script_has_children(house: House) -> None:
    assert_same(house, CHILDREN)


@pytest.mark.parametrize("end", ENDS)
def test_a_script_ends_as_under_python(house: House, end: str) -> None:
    assert_same(house, ENDS[end])


TEXTLESS = "class E:\n    def __str__(self): raise TypeError\nraise SystemExit(E())"


def test_a_script_ends_by_an_object_without_text(house: House) -> None:
    house.write(TEXTLESS)
    alone, traced = house.python("script.py"), house.trace("script.py")

    # Python 3.12.1 and 3.13.0 then also print the error of `__str__`, which they do not clear.
    assert (traced.code, traced.out, traced.err) == (alone.code, alone.out, alone.err[:1])


def test_a_module_is_run_as_by_python(house: House) -> None:
    looks = (
        "import sys; print(sorted(globals()), __spec__.name, __package__, sys.argv, sys.path[0])"
    )
    house.write("", "package/__init__.py")
    house.write(looks, "package/module.py")
    house.write(looks, "package/__main__.py")

    for name in ("package.module", "package"):
        assert house.trace("-m", name, "-x") == house.python("-m", name, "-x")


@pytest.mark.parametrize("name", ["app", "./app/", "app.zip", "compiled.pyc", "broken.pyc"])
@pytest.mark.parametrize("safe", ["", "1"])
def test_what_is_no_text_is_run_as_by_python(house: House, name: str, safe: str) -> None:
    house.write("print('found')", "app/helper.py")
    house.write(LOOKS_AROUND, "app/__main__.py")
    with ZipFile(house.folder / "app.zip", "w") as archive:
        for each in ("helper.py", "__main__.py"):
            archive.write(house.folder / "app" / each, each)
    py_compile.compile(str(house.write("print(__loader__.path)")), house.folder / "compiled.pyc")
    house.write("no magic", "broken.pyc")

    alone, traced = (
        run(name, "-x", env={"PYTHONSAFEPATH": safe}) for run in (house.python, house.trace)
    )

    assert traced == alone
    assert alone.code == (name == "broken.pyc")


def test_a_script_is_found_through_a_link_and_from_elsewhere(house: House) -> None:
    house.write(NEIGHBOUR, "deep/neighbour.py")
    house.write("import neighbour; print(neighbour.VALUE, __file__)", "deep/script.py")
    (house.folder / "link.py").symlink_to("deep/script.py")

    for name in ("link.py", "deep/../deep/script.py", str(house.folder / "deep" / "script.py")):
        assert house.trace(name) == house.python(name)


def test_what_a_safe_path_leaves_out_stays_out(house: House) -> None:
    house.write(NEIGHBOUR, "neighbour.py")
    house.write("import neighbour")

    traced = house.trace("script.py", env={"PYTHONSAFEPATH": "1"})

    assert traced == house.python("script.py", env={"PYTHONSAFEPATH": "1"})
    assert "No module named 'neighbour'" in traced.err


# How it ended, in the trace ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "exit", "code"),
    [
        ("", "ok", 0),
        ("raise SystemExit", "ok", 0),
        ("raise SystemExit(3)", "exit code 3", 3),
        ("raise SystemExit('the end')", "exit code 1: the end", 1),
        ("raise ValueError('no')", "ValueError: no", 1),
        ("raise KeyboardInterrupt", "interrupted (KeyboardInterrupt)", 130),
    ],
)
def test_the_trace_says_how_the_script_ended(house: House, text: str, exit: str, code: int) -> None:
    house.write(text)

    ran = house.trace("script.py", "--epochs", "3")

    meta = house.recorded().meta
    assert ran.code == (code if code != 130 else -signal.SIGINT)
    assert (meta["exit"], meta["exit_code"]) == (exit, code)
    assert (meta["script"], meta["arguments"]) == ("script.py", ["--epochs", "3"])
    assert house.violations() == []


def test_what_nobody_caught_is_a_finding_with_its_line(house: House) -> None:
    house.write("def inner():\n    raise ValueError('no')\n\ninner()\n")
    house.trace("script.py")

    inspected = house.gradscope("inspect", "--plain", "trace.json")

    assert inspected.code == 1
    assert "The program raised ValueError: no at script.py:2" in " ".join(inspected.out.split())


# What is said at the end ---------------------------------------------------------------------


def test_the_last_line_says_where_the_trace_is_and_what_to_type(house: House) -> None:
    house.write("print('out')")

    ran = house.gradscope("trace", "-o", "my trace.json", "script.py")

    held, verdict, following = ran.err.splitlines()
    assert (ran.code, ran.out) == (0, "out\n")
    assert held == "gradscope: my trace.json: no autograd nodes, 0 events"
    assert re.fullmatch(r"gradscope: nothing was recorded \(\d+ rules checked\)", verdict)
    assert following == "gradscope: next: gradscope inspect 'my trace.json'"


def test_verbose_also_says_what_the_recording_cost(house: House) -> None:
    house.write("print('out')")

    ran = house.gradscope("trace", "--verbose", "script.py")

    _, _, cost, *_ = ran.err.splitlines()
    assert re.fullmatch(
        r"gradscope: gradscope took at least [\d.]+ .?s of [\d.]+ m?s: writing [\d.]+ .?s; "
        r"not measured: notes made during steps",
        cost,
    )


def test_the_last_line_comes_after_all_the_script_said(house: House) -> None:
    house.write("import sys\nprint('out')\nsys.stderr.write('err\\n')")

    ran = house.run(
        "sh", "-c", f"{GRADSCOPE} trace --on gradscope script.py 2>&1", env={"PYTHONUNBUFFERED": ""}
    )

    assert [line.partition(":")[0] for line in ran.out.splitlines()[:3]] == [
        "err",
        "out",
        "gradscope",
    ]


# What is refused, in words -------------------------------------------------------------------


class Refused(Protocol):
    def __call__(self, *arguments: str, code: int = 2) -> str: ...


def files_in(folder: Path) -> list[Path]:
    """What there is, but for what Python keeps of modules it has imported."""
    return sorted(each for each in folder.rglob("*") if "__pycache__" not in each.parts)


@pytest.fixture
def refused(
    house: House, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Refused:
    """The one line with which `gradscope trace` refuses before anything has run."""
    monkeypatch.chdir(house.folder)

    def told(*arguments: str, code: int = 2) -> str:
        before = files_in(house.folder)
        with pytest.raises(SystemExit) as left:
            cli.main(["trace", *arguments])
        captured = capsys.readouterr()
        assert (left.value.code, captured.out, captured.err.count("\n")) == (code, "", 1)
        assert files_in(house.folder) == before
        return captured.err.removeprefix("gradscope: error: ").rstrip("\n")

    return told


def test_a_script_that_is_not_there(house: House, refused: Refused) -> None:
    assert refused("nowhere.py") == "there is no script 'nowhere.py'"
    assert refused("a\nb.py") == r"there is no script 'a\nb.py'"
    assert refused("json.tool") == (
        "there is no script 'json.tool'; for the module of that name: gradscope trace -m json.tool"
    )


def test_a_directory_without_a_program(house: House, refused: Refused) -> None:
    (house.folder / "folder").mkdir()

    assert refused("folder", code=1) == "'folder' contains no __main__.py, so it cannot be run"
    assert house.python("folder").code == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_script_nobody_may_read(house: House, refused: Refused) -> None:
    house.write("").chmod(0)

    assert refused("script.py") == "cannot read the script 'script.py': Permission denied"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nowhere", "there is no module named 'nowhere'"),
        ("nowhere.at.all", "there is no module named 'nowhere.at.all'"),
        (".script", "-m expects an absolute name, not '.script'"),
        ("script.py", "-m expects the name of a module: gradscope trace -m script"),
        ("sys", "the module 'sys' is not written in Python, so it cannot be run"),
        ("package", "'package' is a package without a __main__, so it cannot be run"),
    ],
)
def test_a_module_that_python_does_not_run(
    house: House, refused: Refused, name: str, why: str
) -> None:
    house.write("", "script.py")
    house.write("", "package/__init__.py")

    assert refused("-m", name, code=1) == why
    assert house.python("-m", name).code == 1


def test_a_module_whose_package_raises(house: House) -> None:
    house.write("raise ValueError('on import')", "package/__init__.py")
    house.write("", "package/module.py")

    ran = house.trace("-m", "package.module")

    assert ran.code == 1
    assert ran.err == (
        "Traceback (most recent call last):\n"
        f'  File "{house.folder}/package/__init__.py", line 1, in <module>\n'
        "    raise ValueError('on import')\n"
        "ValueError: on import\n"
    )


@pytest.mark.skipif(find_spec("torch") is not None, reason="PyTorch is installed")
def test_pytorch_that_is_not_installed_is_not_recorded(house: House, refused: Refused) -> None:
    house.write("print('never')")

    assert refused("--on", "torch", "script.py") == (
        "--on torch needs PyTorch, which is not installed here; --on gradscope runs the script "
        "on gradscope's own engine, which needs no PyTorch"
    )


@pytest.mark.parametrize("steps", ["", ":", "a:b", "1:2:3", "-1:2", "1.5", "٣"])
def test_steps_that_are_none(house: House, refused: Refused, steps: str) -> None:
    house.write("print('never')")

    assert refused(f"--steps={steps}", "script.py") == (
        f"--steps expects ranges such as 3:7 or 0:9,100:109, not {steps!r}"
    )


def test_options_that_do_not_exist(house: House, refused: Refused) -> None:
    house.write("print('never')")

    assert "--levle" in refused("--levle", "graph", "script.py")
    assert refused("--level", "all", "script.py") == (
        "unknown level 'all'; choose graph, engine, values, full"
    )
    assert refused("--steps", "7:3", "script.py") == "steps 7:3 end before they begin"


def test_a_trace_that_cannot_be_written(house: House, refused: Refused) -> None:
    house.write("print('never')")
    (house.folder / "folder").mkdir()

    for output, reason in {
        "nowhere/trace.json": "No such file or directory",
        "folder": "Is a directory",
        "script.py/trace.json": "Not a directory",
    }.items():
        message = refused("-o", output, "script.py")
        assert message.startswith("cannot write ")
        assert message.endswith(f": {reason}")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_nobody_may_write_to(house: House, refused: Refused) -> None:
    house.write("print('never')")
    locked = house.folder / "locked"
    locked.mkdir(mode=stat.S_IRUSR | stat.S_IXUSR)

    assert refused("-o", "locked/trace.json", "script.py").endswith(": Permission denied")


def test_the_script_itself_is_never_overwritten(house: House, refused: Refused) -> None:
    script = house.write("print('never')")
    (house.folder / "link.json").symlink_to("script.py")

    for output in ("script.py", "./script.py", "link.json", str(script)):
        assert "is the script itself" in refused("-o", output, "script.py")
    assert script.read_text() == "print('never')"


def test_what_is_no_trace_is_never_overwritten(house: House, refused: Refused) -> None:
    house.write("print('never')")
    precious = house.write('{"precious": true}', "precious.json")

    assert refused("-o", "precious.json", "script.py") == (
        "'precious.json' exists and is not a trace; choose another name with -o"
    )
    assert precious.read_text() == '{"precious": true}'


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz", "trace.json.zst"])
def test_an_older_trace_is_overwritten(house: House, name: str) -> None:
    house.write("raise SystemExit(3)")
    house.trace("-o", name, "script.py")
    house.write("")

    ran = house.trace("-o", name, "script.py")

    assert ran == Ran(0, "", "")
    assert house.recorded(name).meta["exit"] == "ok"


def test_a_script_that_is_no_python_leaves_the_older_trace(house: House) -> None:
    house.write("raise SystemExit(3)")
    house.trace("script.py")
    house.write("no python")

    assert house.trace("script.py").code == 1
    assert house.recorded().meta["exit"] == "exit code 3"


# Hostile names -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ['"><script>.py', "a\nb'c.py", "\u202egpj.py", "\udcff.py"])
def test_a_hostile_name_of_a_script(house: House, name: str) -> None:
    house.write("import sys; print(ascii(sys.argv[0]))", name)

    ran = house.gradscope("trace", name, "\udcfe\n")

    assert (ran.code, ran.out) == (0, f"{name!a}\n")
    assert ran.err.count("\n") == 3
    assert house.violations() == []


# Nothing is left behind ----------------------------------------------------------------------

LEAVES = """
import atexit, gc, logging, multiprocessing, os, random, signal, sys, threading, warnings
sys.path.append("/left"); sys.argv.append("left"); sys.modules["left"] = sys
sys.stdout = None; sys.excepthook = None; threading.excepthook = print
warnings.simplefilter("ignore")
signal.signal(signal.SIGINT, signal.SIG_IGN); signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
import neighbour, torch
from torch import autograd
import numpy as np
os.chdir("/"); os.environ["LEFT"] = "1"; sys.meta_path.append(None); sys.setrecursionlimit(777)
random.seed(1); np.random.seed(1); np.seterr(all="raise"); np.set_printoptions(precision=1)
logging.basicConfig(level=logging.DEBUG); gc.disable(); multiprocessing.set_start_method("spawn")
atexit.register(sys.__stderr__.write, "at the scripts end ")
torch.manual_seed(1); torch.set_default_dtype(torch.float64); torch.set_grad_enabled(False)
torch.autograd.set_detect_anomaly(True); torch.set_printoptions(precision=1)
torch.set_num_threads(3); torch.use_deterministic_algorithms(True); torch.set_warn_always(True)
torch.set_default_device("sim:0"); torch.serialization.add_safe_globals([set])
torch.nn.modules.module.register_module_forward_hook(print)
"""
LOOKS = """
import gc, logging, multiprocessing, os, random, signal, sys, threading, warnings
import numpy as np
import gradscope.runtime as runtime
import gradscope.runtime.nn, gradscope.runtime.serialization
from pathlib import Path
from gradscope.record.run_script import TraceOptions, run_script
import torch_before as torch
sys.modules["torch"] = torch
state = lambda: (
    list(sys.path), sys.argv, sys.stdout, sys.stderr, sys.excepthook, threading.excepthook,
    sys.modules["__main__"], sys.modules["torch"], list(sys.meta_path), list(warnings.filters),
    signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM),
    sorted(n for n in sys.modules if n.startswith("torch") or n == "neighbour"),
    signal.getsignal(signal.SIGUSR1), os.getcwd(), dict(os.environ), sys.getrecursionlimit(),
    random.getstate(), str(np.random.get_state()), np.geterr(), np.get_printoptions(),
    list(logging.getLogger().handlers), logging.getLogger().level, gc.isenabled(),
    multiprocessing.get_start_method(allow_none=True),
    runtime.get_rng_state().tolist(), runtime.get_default_dtype(), runtime.is_grad_enabled(),
    runtime.is_anomaly_enabled(), repr(runtime.tensor(1 / 3)), runtime.get_num_threads(),
    runtime.are_deterministic_algorithms_enabled(), runtime.is_warn_always_enabled(),
    runtime.get_default_device(), runtime.serialization.get_safe_globals(),
    len(runtime.nn.modules.module_parts.global_hooks.everywhere.forward),
)
runtime.manual_seed(5); runtime.set_default_dtype(runtime.float16)
before = state()
outcome = run_script(TraceOptions(sys.argv[1], on='gradscope', output=Path("trace.json")))
after = state()
print(outcome.code, [i for i, (a, b) in enumerate(zip(before, after)) if a != b])
"""


@pytest.mark.parametrize("end", ["", "raise ValueError", "raise SystemExit(3)"])
def test_a_process_that_runs_a_script_is_afterwards_as_before(house: House, end: str) -> None:
    house.write(NEIGHBOUR, "scripts/neighbour.py")
    house.write("", "torch_before.py")
    house.write(LEAVES + end, "scripts/script.py")
    house.write(LOOKS, "looks.py")

    ran = house.python("looks.py", str(Path("scripts") / "script.py"))

    code = {"": 0, "raise ValueError": 1, "raise SystemExit(3)": 3}[end]
    assert "at the scripts end " in ran.err
    assert ran.out == f"{code} []\n"
