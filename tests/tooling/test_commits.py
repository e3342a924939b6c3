"""tools/commits.py checks commit messages, as git's hook and over the commits of a clone."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

HOUSE = Path(__file__).parents[2]
LONG = "Say in far more than seventy-two characters what any reader would know already"

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def run(*words: str | Path, where: Path) -> subprocess.CompletedProcess[str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    own |= {"HOME": str(where), "GIT_CONFIG_NOSYSTEM": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    own |= {"PYTHON": "no-python"}  # so that venv.sh stops before it installs
    for who in ("AUTHOR", "COMMITTER"):
        own |= {f"GIT_{who}_NAME": "A", f"GIT_{who}_EMAIL": "a@example.org"}
    return subprocess.run(words, cwd=where, env=own, capture_output=True, text=True, check=False)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A repository whose first commit is the one that the check starts after."""
    run("git", "init", "-q", where=tmp_path)
    commit(tmp_path, 1, "First")
    first = run("git", "rev-parse", "HEAD", where=tmp_path).stdout.strip()
    script = (HOUSE / "tools" / "commits.py").read_text(encoding="utf-8")
    before, found, after = script.partition('SINCE = "')
    assert found
    (tmp_path / "tools").mkdir()
    changed = f"{before}{found}{first}{after[40:]}"
    (tmp_path / "tools" / "commits.py").write_text(changed, encoding="utf-8")
    for name in ("pyproject.toml", "tools/venv.sh"):
        shutil.copy(HOUSE / name, tmp_path / name)
    return tmp_path


def commit(clone: Path, lines: int, message: str) -> subprocess.CompletedProcess[str]:
    (clone / "text").write_text(f"{message}\n" * lines, encoding="utf-8")
    run("git", "add", "text", where=clone)
    return run("git", "commit", "-q", "-m", message, where=clone)


MESSAGES = {
    "Short": (1, []),
    LONG: (1, [f"the subject has {len(LONG)} characters; 72 is the most"]),
    "Without a body": (60, ["61 lines change: say why in a body below the subject"]),
    "With a body\n\nThe reason.": (60, []),
    "Two\nlines": (1, ["the line below the subject is not empty"]),
}


@pytest.mark.parametrize("message", MESSAGES)
def test_the_commits_of_a_clone_are_checked(clone: Path, message: str) -> None:
    lines, complaints = MESSAGES[message]
    commit(clone, lines, message)

    outcome = run("python3", "tools/commits.py", where=clone)

    short = run("git", "rev-parse", "HEAD", where=clone).stdout[:10]
    assert outcome.stderr.splitlines() == [f"{short}: {each}" for each in complaints]
    assert outcome.returncode == bool(complaints)


@pytest.mark.parametrize("message", MESSAGES)
def test_the_hook_refuses_what_the_check_would_find(clone: Path, message: str) -> None:
    lines, complaints = MESSAGES[message]
    run("sh", "tools/venv.sh", "dev", where=clone)
    assert (clone / ".git" / "hooks" / "commit-msg").exists()

    outcome = commit(clone, lines, message)

    assert outcome.stderr.splitlines() == complaints
    assert outcome.returncode == bool(complaints)


def test_a_clone_without_the_first_commit_passes_and_says_so(clone: Path) -> None:
    shutil.rmtree(clone / ".git")

    outcome = run("python3", "tools/commits.py", where=clone)

    assert outcome.returncode == 0
    assert outcome.stdout.startswith("Commit messages are not checked: no git, or a clone without")


def test_a_hook_that_is_there_stays(clone: Path) -> None:
    hook = clone / ".git" / "hooks" / "commit-msg"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text("mine", encoding="utf-8")

    run("sh", "tools/venv.sh", "dev", where=clone)

    assert hook.read_text(encoding="utf-8") == "mine"
