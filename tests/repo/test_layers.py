"""The house rules that no single room can check: who imports whom, and what is loaded when."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest
from importlinter.api import use_cases

import sojourn

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sojourn"

HEAVY = (
    "numpy", "scipy", "numba", "llvmlite", "highspy", "clarabel", "qdldl", "msgspec", "rich",
    "matplotlib", "pandas", "pyarrow", "gymnasium", "networkx", "cvxopt", "joblib", "dask",
    "distributed",
)  # fmt: skip
EXTRAS = (
    "matplotlib", "pandas", "pyarrow", "gymnasium", "networkx", "cvxopt", "joblib", "dask",
    "distributed", "cvxpy", "quantecon", "hypothesis",
)  # fmt: skip


def run_python(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_nobody_imports_upward(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert use_cases.lint_imports(config_filename="pyproject.toml", is_debug_mode=False)


@pytest.mark.parametrize(
    "code",
    [
        "import sojourn; dir(sojourn); sojourn.__version__",
        "from sojourn.cli import main; assert main(['--version']) == 0",
        "from sojourn.cli import main; assert main(['--help']) == 0",
        "from sojourn.cli import main; assert main(['unknown']) == 2",
    ],
)
def test_what_only_talks_loads_nothing_heavy(code: str) -> None:
    probe = f"\nimport sys; print('LOADED', [m for m in {HEAVY} if m in sys.modules])"
    assert run_python(code + probe).splitlines()[-1] == "LOADED []"


def test_every_module_imports_without_the_extras() -> None:
    modules = [
        m.name
        for m in pkgutil.walk_packages(sojourn.__path__, "sojourn.")
        if m.name not in ("sojourn.testing.arbitrary", "sojourn.__main__")
    ]
    assert len(modules) > 30
    code = (
        f"import sys, importlib\nfor extra in {EXTRAS}: sys.modules[extra] = None\n"
        f"for module in {modules}: importlib.import_module(module)\n"
    )
    run_python(code)


def test_hypothesis_is_asked_for_in_a_sentence() -> None:
    out = run_python(
        "import sys; sys.modules['hypothesis'] = None\n"
        "import sojourn as sj\n"
        "sj.testing.random_mdp\n"
        "try: sj.testing.mdps\n"
        "except sj.SojournError as error: print(error)\n"
    )
    assert "hypothesis" in out
    assert "sojourn[test]" in out


def test_the_public_surface_is_there() -> None:
    for name in sojourn.__all__:
        assert getattr(sojourn, name) is not None, name
    assert set(sojourn.__all__) <= set(dir(sojourn))
    with pytest.raises(AttributeError, match="no attribute 'optimal_plans'"):
        _ = sojourn.optimal_plans


def test_every_module_says_what_it_is() -> None:
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert ast.get_docstring(tree), f"{path.relative_to(ROOT)} has no docstring"
    assert (SOURCE / "py.typed").exists()


def test_every_error_is_a_sojourn_error_with_an_exit_code() -> None:
    errors = importlib.import_module("sojourn.errors")
    kinds = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, Exception)]
    assert len(kinds) > 5
    for kind in kinds:
        assert issubclass(kind, errors.SojournError)
        assert kind.exit_code in (1, 2)
        assert kind.__doc__
        error = kind("the message", "the hint")
        assert str(error) == "the message\n  hint: the hint"
        assert str(kind("the message")) == "the message"


def test_every_error_says_what_to_do() -> None:
    """Wherever the source makes an error, a hint goes with it."""
    errors = importlib.import_module("sojourn.errors")
    kinds = {name for name, kind in vars(errors).items() if isinstance(kind, type)}
    made = 0
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                if node.func.id not in kinds:
                    continue
                made += 1
                named = any(word.arg in ("hint", None) for word in node.keywords)
                starred = any(isinstance(a, ast.Starred) for a in node.args)
                where = f"{path.relative_to(ROOT)}:{node.lineno}"
                assert len(node.args) >= 2 or named or starred, f"{where} has no hint"
    assert made > 300
