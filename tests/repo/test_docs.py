"""README, docs and examples do what they say: their code runs, and prints what they show.

    python    runs top to bottom in one namespace per page
    console   every line that begins with "$ sojourn" runs, and has to succeed
    toml      is written to the file that its first line, "# name.toml", names, if it does
    text      right after python or console is exactly what that printed
    sh        is not run: set-up, other programs, what takes minutes

The files of the bundled harbour lie in the folder where a page runs.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
import shutil
from pathlib import Path

import pytest

import sojourn
from sojourn.cli import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))

HARBOUR = Path(sojourn.__file__).parent / "importing" / "examples"

FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks(text: str) -> list[tuple[str, str, int, int]]:
    """(language, content, first character, last character) of each fenced block."""
    return [(m[1], m[2], m.start(), m.end()) for m in FENCE.finditer(text)]


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a page writes, it writes elsewhere; whatever it draws needs no screen."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")


def ran(language: str, content: str, page: Path, line: int, namespace: dict[str, object]) -> str:
    """What a block prints."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        if language == "python":
            # Blank lines in front make a traceback point into the page.
            exec(compile("\n" * line + content, str(page), "exec"), namespace)
        for command in re.findall(r"^\$ sojourn (.*)$", content, re.MULTILINE):
            said = io.StringIO()
            with contextlib.redirect_stderr(said):
                code = main(shlex.split(command, comments=True))
            assert code == 0, f"{page}:{line}: sojourn {command}\n{said.getvalue()}"
    return printed.getvalue()


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_pages_run_top_to_bottom(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    namespace: dict[str, object] = {"__name__": "__main__"}
    for file in HARBOUR.iterdir():
        shutil.copy(file, file.name)
    found = blocks(text)
    for k, (language, content, start, end) in enumerate(found):
        name = re.match(r"# (\S+\.toml)\n", content)
        if language == "toml" and name:
            Path(name[1]).write_text(content, encoding="utf-8")
        if language not in ("python", "console"):
            continue
        line = text.count("\n", 0, start) + 1
        printed = ran(language, content, page, line, namespace)
        if k + 1 < len(found):
            follower, expected, begin, _ = found[k + 1]
            if follower == "text" and not text[end:begin].strip():
                assert printed.rstrip() == expected.rstrip(), f"{page}:{line}"


@pytest.mark.parametrize("example", EXAMPLES, ids=relative)
def test_examples_run(example: Path) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        runpy.run_path(str(example), run_name="__main__")


def test_fences_are_found_and_closed() -> None:
    text = "a\n```python\nx = 1\n```\n\n```text\n1\n```\n"
    assert [(b[0], b[1]) for b in blocks(text)] == [("python", "x = 1\n"), ("text", "1\n")]
    for page in PAGES:
        source = page.read_text(encoding="utf-8")
        assert source.count("\n```") % 2 == 0, f"{page} has a fence that is not closed"


@pytest.mark.parametrize("page", PAGES, ids=relative)
def test_formulas_are_understood(page: Path) -> None:
    """What the converter doesn't know it leaves as it stands, backslash and all."""
    converter = pytest.importorskip("latex2mathml.converter")
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    for displayed, inline in re.findall(r"\$\$(.+?)\$\$|(?<![$`])\$([^$`\n]+?)\$", text, re.DOTALL):
        formula = displayed or inline
        assert "\\" not in converter.convert(formula), formula


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]:
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8")):
            if "://" not in target and not target.startswith("mailto:"):
                assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_the_reference_has_every_public_name() -> None:
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    for name, room in sojourn._WHERE.items():
        if room != "errors":
            assert f":: sojourn.{name}\n" in text, name
    for name in sojourn.instances.names():
        assert f":: sojourn.instances.{name}\n" in text, name
