"""What a script sees of the stack that it runs on."""

from __future__ import annotations

from tests.record.running import House

PRINTS = """
import atexit, logging, sys, threading, traceback
def prints():
    traceback.print_stack()
    print(traceback.format_stack(), len(list(traceback.walk_stack(sys._getframe()))))
    print([each.name for each in traceback.StackSummary.extract(traceback.walk_stack(None))][:2])
prints()
logging.basicConfig(stream=sys.stdout)
logging.warning("logged", stack_info=True)
thread = threading.Thread(target=traceback.print_stack)
thread.start()
thread.join()
atexit.register(prints)
sys.excepthook = lambda *_: traceback.print_stack()
raise ValueError
"""

STOPS = """
def inner():
    breakpoint()
    return 1
inner()
"""


def test_what_a_script_prints_of_its_stack_is_as_alone(house: House) -> None:
    house.write(PRINTS)

    assert house.trace("script.py") == house.python("script.py")


def test_a_debugger_shows_the_scripts_frames_alone(house: House) -> None:
    house.write(STOPS)
    typed = "w\nu\nu\nd\np 1 + 1\nc\n"

    alone = house.python("script.py", input=typed)

    assert house.trace("script.py", input=typed) == alone
    assert "Oldest frame" in alone.out
