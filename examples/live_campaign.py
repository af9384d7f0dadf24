"""A live campaign on the bundled harbour: ask, tell, lose power, resume, correct, report.

The harbour has 673 sites, a river's current, a tide-race and an outfall. Here a random number
generator plays the boat.
"""

from pathlib import Path

import numpy as np

import sojourn as sj
from sojourn.campaign.rehearse import imagine

site = sj.load_site(Path(sj.__file__).parent / "importing/examples/harbour.toml")
truth = imagine(site, seed=7)
rng = np.random.default_rng(7)
file = Path("harbour.sojourn")
file.unlink(missing_ok=True)


def sail(campaign, steps):
    """Follow the advice for some steps."""
    P = site.mdp.transitions
    for _ in range(steps):
        advice = campaign.ask()
        if advice.stop:
            break
        pair = campaign.ledger.outstanding[1].pair
        row = slice(P.indptr[pair], P.indptr[pair + 1])
        state = int(rng.choice(P.indices[row], p=P.data[row]))
        event = campaign.tell(rng.normal(truth.mean[state], truth.variance[state] ** 0.5), state)
    return event


campaign = sj.Campaign.create(file, site, budget=3000, seed=1)
print(campaign.ask().reason)
sail(campaign, 30)
campaign.close()  # or a power cut: every event is on the disk

campaign = sj.Campaign.open(file)
print(f"resumed at step {campaign.steps}")
event = sail(campaign, 30)
campaign.correct(event, 12.5, note="read the wrong scale")
campaign.tell(13.1, state="Outfall", extra=True, note="taken from the quay")

outfall = site.index("Outfall")
estimates = campaign.estimates()
print(
    f"Outfall: {estimates.mean[outfall]:.1f} ± {estimates.standard_error[outfall]:.1f} NTU "
    f"after {estimates.visits[outfall]} values"
)
print(f"report: {campaign.report('harbour.html')}")
campaign.close()
