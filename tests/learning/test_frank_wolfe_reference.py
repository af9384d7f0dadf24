"""FW-AME against the same algorithm written out once more, in plain NumPy with scipy's linprog.

The second version shares no code with the first: it is Alg. FW-AME read from the paper, one
walk at a time, with sums of squares where ours has Welford's form.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from sojourn import MDP, Policy, World, instances, simulate
from sojourn.learning import FrankWolfe, Power, TheoryWidth
from sojourn.planning.faster_mixing import fmh_sdp
from sojourn.planning.linear import largest_floor
from sojourn.testing import SlowWalks, random_mdp


@dataclass
class Reference:
    """Alg. FW-AME with the choices of Sec. sec:experiments, or others."""

    world: World
    floor: float = 1e-3
    width: Callable[[int, float], float] | None = None
    """α as a function of t and T(s); by default that of the experiments."""
    starts: Callable[[int, int], float] = lambda k, tau: tau + (k - 1) ** 3
    """t_k as a function of k and τ₁, in the paper's times, which begin at 1."""
    known: bool = False
    weight: NDArray | None = None
    bound: float | None = None

    def __post_init__(self) -> None:
        mdp = self.world.mdp
        self.n, self.m = mdp.n_states, mdp.n_pairs
        self.P = mdp.transitions.toarray()
        self.E = np.zeros((self.m, self.n))
        self.E[np.arange(self.m), mdp.pair_state] = 1.0
        self.uniform = (1.0 / self.E.sum(axis=0))[mdp.pair_state]
        self.least = np.full(self.n, 2.0 * self.floor)
        if self.program(np.zeros(self.m)) is None:
            chain = self.E.T @ (self.uniform[:, None] * self.P)
            system = np.vstack([chain.T - np.eye(self.n), np.ones(self.n)])
            even = np.linalg.lstsq(system, np.r_[np.zeros(self.n), 1.0], rcond=None)[0]
            self.least = np.minimum(self.least, 0.5 * even)

    def program(self, cost: NDArray) -> NDArray | None:
        """argmin over Λ_floor of ⟨cost, λ⟩."""
        answer = linprog(
            cost, A_eq=np.vstack([(self.E - self.P).T, np.ones(self.m)]),
            b_eq=np.r_[np.zeros(self.n), 1.0], A_ub=-self.E.T, b_ub=-self.least, method="highs",
        )  # fmt: skip
        return answer.x

    def gradient(self, visits: NDArray, variance: NDArray, t: int) -> NDArray:
        """∇𝓛̂⁺ at λ̃ = T/t, per state, normalised."""
        alpha = np.zeros(self.n)
        if not self.known:
            bound = self.world.variance_bound if self.bound is None else self.bound
            alpha = np.array([
                0.2 * bound * math.sqrt(math.log(4 * self.n * t**2) / T) if self.width is None
                else self.width(t, T) for T in visits
            ])  # fmt: skip
        optimistic = (self.world.variance if self.known else variance) + alpha
        g = -optimistic / (visits / t) ** 2
        if self.weight is not None:
            g = g * self.weight
        scale = np.abs(g).max()
        return g / scale if scale > 0 else g

    def policy(self, visits: NDArray, variance: NDArray, t: int) -> tuple[NDArray, NDArray]:
        """ψ̂⁺ and its policy, after t steps."""
        psi = self.program(self.E @ self.gradient(visits, variance, t))
        assert psi is not None
        psi = np.maximum(psi, 0.0)
        return psi, psi / (self.E @ (self.E.T @ psi))

    def walk(self, budget: int, rng: np.random.Generator) -> tuple[NDArray, NDArray]:
        """The visits, and the estimated means, of one walk."""
        pair_state = self.world.mdp.pair_state
        visits, total, square = (np.zeros(self.n) for _ in range(3))
        state = int(rng.choice(self.n, p=self.world.start))
        policy, k, tau = self.uniform, 1, 0
        for t in range(1, budget + 1):
            pairs = np.flatnonzero(pair_state == state)
            pair = rng.choice(pairs, p=policy[pairs] / policy[pairs].sum())
            state = int(rng.choice(self.n, p=self.P[pair]))
            x = rng.normal(self.world.mean[state], math.sqrt(self.world.variance[state]))
            visits[state] += 1
            total[state] += x
            square[state] += x * x
            if not tau and visits.min() > 0:
                tau = t
            # Episode k + 1 starts at t_{k+1}: its first step is the next one.
            if tau and (k == 1 or t + 1 >= self.starts(k + 1, tau)):
                k += 1
                variance = square / visits - (total / visits) ** 2
                _, policy = self.policy(visits, variance, t)
        return visits, total / np.maximum(visits, 1)


GARNET = instances.garnet(5, 3, 2, seed=1)
RAGGED = World(random_mdp("ragged", 6, 3, np.random.default_rng(4)),
               variance=10.0 ** np.random.default_rng(5).uniform(-3, 1, 6))  # fmt: skip
WEIGHT = np.array([1.0, 0.5, 2.0, 1.0, 3.0])


def theory(t: int, T: float) -> float:
    return 5 * 3.0**2 * math.sqrt(math.log(4 * 5 * t / 0.1) / T)


def infeasible(mdp: MDP) -> float:
    return 1.3 * largest_floor(mdp)


CASES: dict[str, tuple[World, dict[str, Any], dict[str, Any]]] = {
    "experiments": (GARNET, {}, {}),
    "ragged": (RAGGED, {}, {}),
    "theory": (
        GARNET,
        {"schedule": "theorem", "width": TheoryWidth(3.0, confidence=0.1)},
        {"starts": lambda k, tau: tau * (k - 1) ** 3 + 1, "width": theory},
    ),
    "constant": (
        GARNET,
        {"schedule": 9, "width": 0.0},
        {"starts": lambda k, tau: tau + 1 + 9 * (k - 2), "width": lambda t, T: 0.0},
    ),
    "square, high floor": (
        GARNET,
        {"schedule": Power(2), "floor": 0.05},
        {"starts": lambda k, tau: tau + (k - 1) ** 2, "floor": 0.05},
    ),
    "shrunk floor": (
        GARNET,
        {"floor": infeasible(GARNET.mdp)},
        {"floor": infeasible(GARNET.mdp)},
    ),
    "known": (GARNET, {"known_variance": True}, {"known": True}),
    "weights": (GARNET, {}, {"weight": WEIGHT}),
    "bound": (GARNET, {"variance_bound": 300.0}, {"bound": 300.0}),
}


@pytest.mark.parametrize("case", CASES)
def test_every_policy_is_that_of_the_algorithm(case: str) -> None:
    """Pair by pair, also where the vertex has several recurrent classes; and the time at which
    it begins."""
    world, options, changes = CASES[case]
    reference = Reference(world, **changes)
    walks = SlowWalks(world, FrankWolfe(**options), 600, walks=4, seed=3, weight=reference.weight)
    first, k = np.zeros(4, dtype=int), np.zeros(4, dtype=int)
    compared = 0
    while walks.asking.size:
        asking = walks.asking
        decision = walks.decide(asking)
        assert decision.policy is not None
        for row, w in enumerate(asking):
            k[w] += 1
            visits, t = walks.seen.visits[w].astype(float), int(walks.seen.time[w])
            if k[w] == 1:
                np.testing.assert_allclose(decision.policy[row], reference.uniform)
                continue
            if k[w] == 2:
                first[w] = t
                assert visits.min() == 1
            assert t + 1 == max(reference.starts(int(k[w]), int(first[w])), first[w] + 1)
            variance = walks.seen.spread[w] / visits
            psi, policy = reference.policy(visits, variance, t)
            if visits.min() == 1 and not reference.known:
                # States with a single sample look alike, and the best vertex is not unique.
                chain = Policy(world.mdp, decision.policy[row]).chain()
                if len(chain.recurrent_classes()) == 1:
                    g = reference.gradient(visits, variance, t)
                    assert g @ chain.stationary() == pytest.approx(g @ (reference.E.T @ psi))
                    assert (chain.stationary() >= reference.least * (1 - 1e-9)).all()
                continue
            np.testing.assert_allclose(decision.policy[row], policy, atol=1e-6)
            compared += 1
        walks.follow(decision, asking)
    assert compared >= 10


@pytest.mark.parametrize("case", ["experiments", "theory"])
def test_walks_have_the_law_of_the_algorithm(case: str) -> None:
    """The visits and the squared errors of whole walks."""
    world, options, changes = CASES[case]
    world = world.replace(mean=np.arange(5.0))
    reference = Reference(world, **changes)
    rng = np.random.default_rng(8)
    slow = [reference.walk(80, rng) for _ in range(150)]
    fast = simulate(world, FrankWolfe(**options), 80, runs=5000)

    def agree(a: NDArray, b: NDArray) -> None:
        spread = np.sqrt(a.var(axis=0, ddof=1) / len(a) + b.var(axis=0, ddof=1) / len(b))
        assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) < 4 * spread).all()

    agree(np.array([visits for visits, _ in slow]), fast.visits)
    agree(np.array([(mean - world.mean) ** 2 for _, mean in slow]), (fast.mean - world.mean) ** 2)
    agree(np.array([np.sort(visits)[:2] for visits, _ in slow]), np.sort(fast.visits)[:, :2])


def test_fmh_sdp_is_asked_for_what_the_paper_says() -> None:
    """The target ψ̂⁺, and the slack of Eq. delta_tau_k for τ_k steps."""
    world = instances.garnet(5, 3, 3, reversible=True, seed=1)
    reference, n = Reference(world), 5
    walks = SlowWalks(world, FrankWolfe(mixing="sdp"), 700, walks=2, seed=1)
    compared = 0
    while walks.asking.size:
        asking = walks.asking
        decision = walks.decide(asking)
        assert decision.policy is not None
        for row, w in enumerate(asking):
            visits, t = walks.seen.visits[w].astype(float), int(walks.seen.time[w])
            if visits.min() <= 1:
                continue
            variance = walks.seen.spread[w] / visits
            psi, _ = reference.policy(visits, variance, t)
            total = variance.sum()
            steps = int(decision.until[row]) - t
            if decision.until[row] == 700:
                continue  # The last episode is cut; its slack is that of its planned length.
            slack = (total - variance) / ((n - 1) * total) / math.sqrt(steps)
            policy = Policy(world.mdp, decision.policy[row])
            expected = fmh_sdp(world.mdp, psi, slack, 1e-3)
            np.testing.assert_allclose(policy.probability, expected.probability, atol=2e-3)
            compared += 1
        walks.follow(decision, asking)
    assert compared >= 5
