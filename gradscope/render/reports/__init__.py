"""The report of `inspect` for programs: JSON, SARIF, annotations of GitHub's workflows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath, PurePosixPath, PureWindowsPath

from gradscope.analysis.identity.sites import Site


@dataclass(frozen=True, slots=True)
class About:
    """Facts of a report for programs besides the findings."""

    notes: tuple[str, ...] = ()  # of the trace
    folder: str = ""  # in which the program ran
    root: str = ""  # to which paths of files are relative; "": to the folder
    baseline: bool = False  # some findings were known before

    def file(self, site: Site) -> str:
        """The path of a file from the root; absolute for files outside of it."""
        pure: type[PurePath] = PureWindowsPath if "\\" in self.folder[:3] else PurePosixPath
        whole = pure(self.folder, site.file)
        root = pure(self.root or self.folder)
        if site.file and str(root) != "." and whole.is_relative_to(root):
            return whole.relative_to(root).as_posix()
        return pure(site.file).as_posix() if site.file else ""
