"""How fast do learners approach the optimum? Fitted exponents, with their errors.

    python benchmarks/rates.py [--quick] [--out FOLDER]

Excess allocation loss, mean over walks, against t on fast-mixing Garnets, for FW-AME (one walk
read at many times, since it does not plan for a budget) and Lookahead (one simulation per t).
The exponent is the slope of a straight line through log excess against log t, averaged over the
worlds; its error is the spread over the worlds. Thm. thm:regret_FWAME promises −1/3.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import sojourn as sj
from sojourn.experiments import save_table
from sojourn.plots.curves import CurvesRecord, Line, draw


def excess(world: sj.World, name: str, times: list[int], runs: int, seed: int) -> np.ndarray:
    """Mean allocation loss above the optimum, relative, at each time."""
    if name == "FW-AME":
        found = sj.simulate(world, sj.FrankWolfe(), max(times), runs, seed, checkpoints=times)
        return found.allocation_ratio
    return np.array([
        sj.simulate(world, sj.Lookahead(), n, runs, seed).allocation_ratio[0] for n in times
    ])  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("out"))
    arguments = parser.parse_args()
    worlds = 2 if arguments.quick else 8
    runs = 8 if arguments.quick else 40
    times = [100, 300, 1000] if arguments.quick else [300, 1000, 3000, 10_000, 30_000]
    rows, lines = [], []
    for name in ("FW-AME", "Lookahead"):
        curves, slopes = [], []
        for k in range(worlds):
            world = sj.instances.garnet(5, 3, 4, seed=k)
            curve = excess(world, name, times, runs, seed=k)
            curves.append(curve)
            good = curve > 0
            if good.sum() >= 3:
                slopes.append(np.polyfit(np.log(np.array(times)[good]), np.log(curve[good]), 1)[0])
            rows += [
                {"strategy": name, "world": k, "n": n, "excess": float(x)}
                for n, x in zip(times, curve)
            ]
        slope = np.array(slopes)
        error = slope.std(ddof=1) / np.sqrt(slope.size) if slope.size > 1 else float("nan")
        mean = np.mean(curves, axis=0)
        shown = "  ".join(f"{n}: {x:.4f}" for n, x in zip(times, mean))
        print(f"{name:>10}: exponent {slope.mean():.3f} ± {error:.3f}   excess  {shown}")
        lines.append(Line(name, np.array(times, dtype=float), mean))
    reference = lines[0].y[0] * (lines[0].x / lines[0].x[0]) ** (-1 / 3)
    lines.append(Line("t^(-1/3)", lines[0].x, reference))
    arguments.out.mkdir(parents=True, exist_ok=True)
    record = CurvesRecord(
        "Excess loss of learners", "t", "loss / optimum - 1", tuple(lines), log_x=True, log_y=True
    )
    print(*save_table(rows, arguments.out / "rates"), *draw(record, arguments.out / "rates.png"))


if __name__ == "__main__":
    main()
