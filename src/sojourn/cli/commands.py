"""The table of commands: name → (module, attribute, one line of help).

A command is a click command in a module of its own, imported only when it is run. To add one,
write the module and add a line here; the line's help is what ``sojourn --help`` shows.
"""

from __future__ import annotations

COMMANDS: dict[str, tuple[str, str, str]] = {
    "demo": ("sojourn.cli.demo", "demo", "A harbour survey, from map to report."),
    "inspect": ("sojourn.cli.inspect", "inspect", "What a site is, and what its moves allow."),
    "plan": ("sojourn.cli.plan", "plan", "What a budget buys, or what a precision costs."),
    "simulate": ("sojourn.cli.simulate", "simulate", "Strategies on a site, or a whole study."),
    "campaign": ("sojourn.cli.campaign", "campaign", "A live walk: ask, tell, resume, report."),
    "reproduce": ("sojourn.cli.reproduce", "reproduce", "The paper's tables and figures."),
}
