"""Whose wishes for the end of a process are the script's own."""

from __future__ import annotations

import os

import pytest

import gradscope
from gradscope.record.script.exits import is_beside
from gradscope.trace.schema import GraphTask
from tests.record.running import House

HERE = f"{os.sep}home{os.sep}me{os.sep}project"


@pytest.mark.parametrize(
    ("path", "beside"),
    [
        ("helper.py", True),
        ("package/module.py", True),
        (".venv/lib/python3.12/site-packages/gradscope/trace/file_writer.py", False),
        ("venv/lib/python3/dist-packages/numpy/__init__.py", False),
    ],
)
def test_what_is_installed_below_a_script_is_not_its_own(path: str, beside: bool) -> None:
    assert is_beside(os.path.join(HERE, *path.split("/")), HERE) is beside  # noqa: PTH118
    assert not is_beside(f"{HERE}s{os.sep}helper.py", HERE)
    assert not is_beside(None, HERE)
    assert not is_beside(f"{HERE}{os.sep}helper.py", None)


def test_gradscope_is_not_the_scripts_wherever_it_lies() -> None:
    sources = os.path.dirname(os.path.dirname(gradscope.__file__))  # noqa: PTH120

    assert not is_beside(gradscope.__file__, sources)
    assert is_beside(os.path.join(sources, "train.py"), sources)  # noqa: PTH118


def test_a_script_in_site_packages_is_its_own() -> None:
    folder = os.path.join(HERE, "site-packages", "tool")  # noqa: PTH118

    assert is_beside(os.path.join(folder, "part.py"), folder)  # noqa: PTH118


def test_a_script_that_closes_all_descriptors_keeps_its_exit_code_and_its_trace(
    house: House,
) -> None:
    house.write("""
import os, torch
x = torch.ones(3, requires_grad=True)
def work():
    for _ in range(3000):
        (x * 2).sum().backward()
work()
os.closerange(3, 256)
files = [open(f"other{i}", "w") for i in range(5)]
work()
for file in files:
    print("mine", file=file, flush=True)
""")
    for name in ("trace.json", "trace.json.gz"):
        ran = house.trace("-o", name, "script.py")

        assert (ran.code, ran.err) == (0, "")
        assert {(house.folder / f"other{i}").read_text() for i in range(5)} == {"mine\n"}
        assert len(house.recorded(name).table(GraphTask)) == 6000
        assert house.recorded(name).notes == ()
        assert house.violations(name) == []


def test_threads_that_outlive_the_script_see_that_the_main_thread_has_ended(house: House) -> None:
    """They waited for it, and it for them."""
    house.write("""
import atexit, threading, time, torch
main = threading.main_thread()
def join():
    main.join()
    print("joined", main.is_alive())
def look():
    while main.is_alive():
        time.sleep(0.01)
    torch.ones(1, requires_grad=True).sum().backward()
threads = [threading.Thread(target=each) for each in (join, look)]
for thread in threads:
    thread.start()
atexit.register(lambda: print("at exit", main.is_alive(), [each.is_alive() for each in threads]))
""")

    ran = house.trace("script.py")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out == "joined False\nat exit False [False, False]\n"
    assert len(house.recorded().table(GraphTask)) == 1


def test_a_script_that_closes_the_standard_error_ends_as_alone(house: House) -> None:
    house.write("import os\nos.close(2)\n")

    assert house.gradscope("trace", "script.py").code == 0
