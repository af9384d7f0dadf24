"""One live walk: ask where to go, tell what was measured, resume after a power cut."""

from sojourn.campaign.campaign import Advice, Campaign
from sojourn.campaign.estimates import Estimates, estimate

__all__ = ["Advice", "Campaign", "Estimates", "estimate"]
