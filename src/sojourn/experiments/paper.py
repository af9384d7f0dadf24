"""The experiments of the paper as definitions, and the numbers that it prints.

The published numbers are those of Tarbouriech & Lazaric, *Active Exploration in Markov Decision
Processes* (AISTATS 2019), Sec. sec:experiments.
"""

from __future__ import annotations

from typing import Any

from sojourn.experiments.definition import Cell, CellId, Experiment, experiment_id

PAPER_TABLE = {
    (5, "fw-ame", 500): 0.31, (5, "fw-ame", 1000): 0.10,
    (5, "uniform", 500): 2.18, (5, "uniform", 1000): 1.04,
    (10, "fw-ame", 500): 0.35, (10, "fw-ame", 1000): 0.19,
    (10, "uniform", 500): 1.98, (10, "uniform", 1000): 1.15,
}  # fmt: skip
"""Fig. table_rnl: (S, strategy, n) → RATIO, the mean over 100 Garnets."""

PAPER_SLEM = {"fast": {"fw-ame": 0.55, "fw-ame-fmh-sdp": 0.55},
              "slow": {"fw-ame": 0.95, "fw-ame-fmh-sdp": 0.88}}  # fmt: skip
"""Fig. plot_learning_mixing: the average SLEM of the policies played."""

PAPER_THETA = (3.0, 1.0 / 3.0)
"""Fig. fig:theta_m: the best m, and its exponent."""

WORLDS = {"fast": (5, 3, 3, 6), "slow": (10, 2, 2, 28)}
"""Fig. plot_learning_mixing: S, A, b, and the seed of our instance. The paper does not give its
instances; the seeds are the outcome of :func:`worlds`, the search among :data:`SEARCHED`, by the
rule in :mod:`sojourn.experiments.analysis.worlds`."""

SEARCHED = {"fast": 200, "slow": 1000}
"""The seeds 0, 1, … searched."""


def table(n_states: int, *, quick: bool = False) -> Experiment:
    """Fig. table_rnl: competitive ratios over 100 Garnets 𝒢(S, A=3, b=2), R = 100."""
    instances = 8 if quick else 100
    name = f"garnet-table/S{n_states}" + ("-quick" if quick else "")
    return Experiment(
        experiment_id(name),
        "garnet_ratios",
        tuple(Cell(CellId(f"instance-{k:03d}"), {}) for k in range(instances)),
        title=f"Competitive ratio on Garnets with {n_states} states",
        shared={
            "n_states": n_states, "n_actions": 3, "branching": 2, "runs": 20 if quick else 100,
            "budgets": [500, 1000], "strategies": ["fw-ame", "fw-ame-even", "uniform", "lookahead"],
            # Lookahead thinks at every step and its losses hardly vary from walk to walk.
            "fewer_runs": {"lookahead": 5 if quick else 10},
        },
    )  # fmt: skip


def three_state(*, quick: bool = False) -> Experiment:
    """Fig. plot_mixing_3state: LOSS(π, n, R=100) on the three-state world."""
    budgets = [20, 100, 300] if quick else [
        10, 15, 20, 30, 40, 50, 70, 100, 140, 200, 280, 400, 560, 700, 850, 1000,
    ]  # fmt: skip
    return Experiment(
        experiment_id("three-state" + ("-quick" if quick else "")),
        "three_state_losses",
        tuple(Cell(CellId(f"n-{n}"), {"budget": n}) for n in budgets),
        title="The three-state world: what faster mixing is worth",
        # The paper's figure has R = 100; what is exact is checked with more.
        shared={"runs": 100, "many": 1000 if quick else 20_000},
    )


def learning(which: str, *, quick: bool = False) -> Experiment:
    """Fig. plot_learning_mixing: normalised losses of R = 1000 walks on one reversible Garnet."""
    n_states, n_actions, branching, world = WORLDS[which]
    runs, block = (20, 10) if quick else (1000, 50)
    budgets = [100, 400] if quick else [
        50, 75, 100, 150, 200, 300, 400, 500, 600, 700, 800, 900, 1000,
    ]  # fmt: skip
    # Lookahead plans for its budget: every point is a simulation of its own.
    fewer = budgets if quick else [50, 100, 200, 400, 700, 1000]
    cells = tuple(
        Cell(CellId(f"{name}/walks-{k * block:04d}"),
             {"strategy": name, "budgets": fewer if name == "lookahead" else budgets})
        for name in ("uniform", "fw-ame", "fw-ame-fmh-sdp", "lookahead")
        for k in range(runs // block)
    )  # fmt: skip
    return Experiment(
        experiment_id(f"learning/{which}" + ("-quick" if quick else "")),
        "learning_curve",
        cells,
        title=f"Learning on a {which} mixing Garnet",
        shared={
            "which": which, "n_states": n_states, "n_actions": n_actions, "branching": branching,
            "world": world, "runs": block,
            "world_from": f"learning-worlds/{which}, a search among {SEARCHED[which]} seeds",
        },
    )  # fmt: skip


def worlds(which: str, *, quick: bool = False) -> Experiment:
    """The search for the instance of :func:`learning`: average SLEMs on many seeds."""
    n_states, n_actions, branching, chosen = WORLDS[which]
    block = 5
    seeds = [chosen, *range(4)] if quick else [*range(SEARCHED[which])]
    return Experiment(
        experiment_id(f"learning-worlds/{which}" + ("-quick" if quick else "")),
        "candidate",
        tuple(
            Cell(CellId(f"seeds-{seeds[k]:04d}"), {"worlds": seeds[k : k + block]})
            for k in range(0, len(seeds), block)
        ),
        title=f"Searching a {which} mixing Garnet",
        shared={
            "which": which, "n_states": n_states, "n_actions": n_actions, "branching": branching,
            "runs": 10, "budget": 1000, "slem": PAPER_SLEM[which]["fw-ame"], "tolerance": 0.02,
        },
    )  # fmt: skip


def theta(*, quick: bool = False) -> Experiment:
    """Fig. fig:theta_m: the exponent θ(m)."""
    grid = [1.0 + 0.25 * k for k in range(37)]
    return Experiment(
        experiment_id("theta"), "exponents", (Cell(CellId("all"), {"exponents": grid}),),
        title="The exponent of the regret bound against the growth of episodes",
        shared={"stop": 1e100},
    )  # fmt: skip


def rates(*, quick: bool = False) -> Experiment:
    """Thm. thm:regret_FWAME: how the loss above the optimum falls with n, on fast Garnets.

    FW-AME with the episodes of the experiments, with those of the theorem, and with constant
    ones (Remark rate); Lookahead.
    """
    budgets = [100, 300, 1000] if quick else [100, 300, 1000, 3000, 10_000]
    learners: dict[str, dict[str, Any]] = {
        "FW-AME": {"strategy": "fw-ame"},
        "FW-AME, theorem's episodes": {"strategy": "fw-ame", "options": {"schedule": "theorem"}},
        "FW-AME, 100 steps each": {"strategy": "fw-ame", "options": {"schedule": 100}},
        "Lookahead": {"strategy": "lookahead", "runs": 4 if quick else 20},
    }
    return Experiment(
        experiment_id("rates" + ("-quick" if quick else "")),
        "excess",
        tuple(
            Cell(CellId(f"learner-{k}/world-{world}"), given | {"label": label, "world": world})
            for k, (label, given) in enumerate(learners.items())
            for world in range(3 if quick else 16)
        ),
        title="Rates of learners",
        shared={"n_states": 5, "n_actions": 3, "branching": 4, "budgets": budgets,
                "runs": 8 if quick else 40},
    )  # fmt: skip


FIGURES = ("table", "three-state", "learning", "theta", "rates", "worlds")
"""What ``sojourn reproduce`` knows: what the paper shows, the rate that its theorem promises, and
the search behind the learning figures."""


def definitions(figure: str, *, quick: bool = False) -> tuple[Experiment, ...]:
    """The experiments behind a figure or table of the paper."""
    match figure:
        case "table":
            return table(5, quick=quick), table(10, quick=quick)
        case "three-state":
            return (three_state(quick=quick),)
        case "learning":
            return learning("fast", quick=quick), learning("slow", quick=quick)
        case "theta":
            return (theta(quick=quick),)
        case "rates":
            return (rates(quick=quick),)
        case "worlds":
            return worlds("fast", quick=quick), worlds("slow", quick=quick)
    raise KeyError(figure)
