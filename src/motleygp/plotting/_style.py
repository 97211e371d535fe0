"""Colours and limits that several pictures share."""

from matplotlib.axes import Axes

# Okabe and Ito's colours, which the colour-blind tell apart; they differ in grey too.
BLUE, ORANGE = "#0072B2", "#E69F00"
# What was observed, and what would be expected.
DATA, REFERENCE, REFERENCE_BAND = "0.55", "0.4", "0.87"
BAND_ALPHA = 0.2


def limit_to_shares(ax: Axes) -> None:
    """A vertical axis for numbers from 0 to 1, with room for what lies at its ends."""
    ax.set_ylim(-0.05, 1.05)
