"""Pictures: a record of pure numbers, and a thin renderer for it. Nothing is computed here."""

from sojourn.plots.finite import FiniteLossCurves, LossCurve, finite_loss_curves

__all__ = ["FiniteLossCurves", "LossCurve", "finite_loss_curves"]
