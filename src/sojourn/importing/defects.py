"""What is wrong with a site file: each defect with its file, its line and how to mend it.

A loader collects every defect that it can find before it gives up, so that a user mends a map
once and not once per mistake.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sojourn.errors import SiteError


@dataclass(frozen=True)
class Defect:
    """One mistake. ``line`` is 1-based, 0 where a line makes no sense."""

    file: str
    line: int
    message: str
    fix: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}" if self.line else self.file
        return f"{where}: {self.message}" + (f" ({self.fix})" if self.fix else "")


@dataclass
class Defects:
    """Collects defects while a file is read."""

    found: list[Defect] = field(default_factory=list)

    def add(self, file: Path | str, line: int, message: str, fix: str) -> None:
        name = (file.name or str(file)) if isinstance(file, Path) else file
        self.found.append(Defect(name, line, message, fix))

    def raise_any(self) -> None:
        """Raise one error that names all defects, if there are any."""
        if self.found:
            raise SiteFileError(self.found)


class SiteFileError(SiteError):
    """A site file can't be used; ``defects`` has every mistake that was found."""

    def __init__(self, defects: list[Defect]) -> None:
        shown = [str(d) for d in defects[:20]]
        more = len(defects) - len(shown)
        head = "the site file has a mistake" if len(defects) == 1 else (
            f"the site file has {len(defects)} mistakes"
        )  # fmt: skip
        super().__init__(
            "\n  ".join([head + ":", *shown, *([f"… and {more} more"] if more else [])]),
            "mend the lines named above and run `sojourn inspect` again",
        )
        self.defects = tuple(defects)
