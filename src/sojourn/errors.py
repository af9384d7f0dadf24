"""Everything that sojourn raises on purpose.

Each error says *what is wrong* (``message``, naming the state, the action, the number) and
*what to do about it* (``hint``). ``exit_code`` is what the command line returns: 2 when the
question was wrong, 1 when a right question could not be answered.
"""

from __future__ import annotations


class SojournError(Exception):
    """Root of all errors of sojourn."""

    exit_code = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\n  hint: {self.hint}" if self.hint else self.message


class ArgumentError(SojournError, ValueError):
    """An argument has a value that means nothing here."""

    exit_code = 2


class ModelError(SojournError, ValueError):
    """The description of a world is wrong."""

    exit_code = 2


class SiteError(ModelError):
    """A site file is wrong; the message names file and line."""


class MissingExtra(SojournError, ImportError):
    """An optional dependency is needed and not installed."""

    exit_code = 2


class FrozenError(SojournError, AttributeError):
    """Something tried to change an object that stays as it was built."""


class InfiniteLoss(SojournError):
    """No walk can visit every state that matters infinitely often."""


class InfeasibleFloor(SojournError):
    """No stationary distribution stays above the floor that was asked for."""

    def __init__(self, message: str, hint: str = "", largest: float = 0.0) -> None:
        super().__init__(message, hint)
        self.largest = largest
        """The largest feasible floor (in the same unit as the one that was asked for)."""


class InfeasibleTarget(SojournError):
    """A target distribution, slack or symmetry constraint leaves an empty feasible set."""


class SolverFailure(SojournError):
    """A solver stopped without a certified answer."""


class NotReversible(SojournError, ValueError):
    """A formula for reversible chains was given a chain that is not reversible."""

    exit_code = 2


class SeveralClasses(SojournError):
    """A question with one answer per recurrent class was asked of a chain with several."""


class StrategyError(SojournError):
    """A strategy broke the protocol: an unavailable action, a non-distribution, a NaN."""


class CampaignError(SojournError):
    """A campaign can't do what was asked of it."""


class RequestError(CampaignError):
    """What a campaign was told or asked means nothing there."""

    exit_code = 2


class StoreError(CampaignError):
    """The campaign's file can't be read or written."""


class ExperimentError(SojournError):
    """An experiment's definition, or what lies on disk of it, is not usable."""


class DefinitionError(ExperimentError, ValueError):
    """The description of an experiment or a study is wrong, or isn't that of what lies on disk."""

    exit_code = 2


def need(package: str, extra: str, purpose: str) -> MissingExtra:
    """The error for a missing optional dependency."""
    return MissingExtra(
        f"{purpose} needs the package {package!r}, which is not installed",
        f"install it with: pip install 'sojourn[{extra}]'",
    )
