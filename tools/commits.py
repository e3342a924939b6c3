"""Check commit messages: a short subject, and a body where many lines change.

    python3 tools/commits.py FILE   the message in FILE, for what is staged: git's hook `commit-msg`
    python3 tools/commits.py        every commit since SINCE: what .ci/run does

Needs Python alone. Without git, or where SINCE is not in the clone, it says so and passes.
"""

import subprocess
import sys
from pathlib import Path

SINCE = "9f2e38cfb85c8fce3e7734c3846ceee12e2574a7"  # older commits are not checked
LONGEST_SUBJECT = 72
MOST_LINES_WITHOUT_BODY = 50
SCISSORS = "# ------------------------ >8 ------------------------"


def complaints(message: str, lines: int) -> list[str]:
    """What is wrong with a message of a commit that changes so many lines."""
    subject, _, body = message.strip().partition("\n")
    found = []
    if len(subject) > LONGEST_SUBJECT:
        found.append(f"the subject has {len(subject)} characters; {LONGEST_SUBJECT} is the most")
    if body.strip() and body.partition("\n")[0].strip():
        found.append("the line below the subject is not empty")
    if lines > MOST_LINES_WITHOUT_BODY and not body.strip():
        found.append(f"{lines} lines change: say why in a body below the subject")
    return found


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, check=True)  # noqa: S607
    return done.stdout.decode("utf-8", "replace")


def lines_of(numstat: str) -> int:
    """The lines added and removed; git writes `-` for files that are not text."""
    counts = [count for line in numstat.splitlines() for count in line.split("\t")[:2]]
    return sum(int(count) for count in counts if count.isdigit())


def check_message(file: Path) -> list[str]:
    written = file.read_text(encoding="utf-8", errors="replace").partition(SCISSORS)[0]
    message = "\n".join(line for line in written.splitlines() if not line.startswith("#"))
    return complaints(message, lines_of(git("diff", "--cached", "--numstat", "-M")))


def check_commits(since: str) -> list[str]:
    found = []
    for commit in git("rev-list", "--no-merges", f"{since}..HEAD").split():
        lines = lines_of(git("show", "--format=", "--numstat", "-M", commit))
        message = git("show", "--no-patch", "--format=%B", commit)
        found += [f"{commit[:10]}: {each}" for each in complaints(message, lines)]
    return found


def main(arguments: list[str]) -> int:
    try:
        if not arguments:
            git("merge-base", "--is-ancestor", SINCE, "HEAD")
        found = check_message(Path(arguments[0])) if arguments else check_commits(SINCE)
    except (OSError, subprocess.CalledProcessError):
        print(f"Commit messages are not checked: no git, or a clone without {SINCE[:10]}.")
        return 0
    for each in found:
        print(each, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
