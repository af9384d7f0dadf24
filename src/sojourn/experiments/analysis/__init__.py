"""From rows to what is said: our numbers beside the paper's, and why they differ.

An analysis is a function of the rows alone; it never computes what a runner should have.
"""

from collections.abc import Callable, Sequence

from sojourn.experiments.analysis.learning import learning_report
from sojourn.experiments.analysis.rates import rates_report
from sojourn.experiments.analysis.report import Report, markdown, text
from sojourn.experiments.analysis.study import study_report
from sojourn.experiments.analysis.table import table_report
from sojourn.experiments.analysis.theta import theta_report
from sojourn.experiments.analysis.three_state import three_state_report
from sojourn.experiments.analysis.worlds import worlds_report
from sojourn.experiments.definition import Row

REPORTS: dict[str, Callable[[Sequence[Row]], Report]] = {
    "table": table_report, "three-state": three_state_report, "learning": learning_report,
    "theta": theta_report, "rates": rates_report, "worlds": worlds_report,
}  # fmt: skip
"""The analysis of each figure in :data:`sojourn.experiments.paper.FIGURES`."""

__all__ = ["REPORTS", "Report", "markdown", "study_report", "text"]
