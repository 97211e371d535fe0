"""Colours and limits that several pictures share."""

from matplotlib.axes import Axes

# Colours of Okabe and Ito, distinct for colour-blind readers and in grey.
BLUE, ORANGE = "#0072B2", "#E69F00"
# Greys of the data, and of the lines and bands that they are compared with.
DATA, REFERENCE, REFERENCE_BAND = "0.55", "0.4", "0.87"
BAND_ALPHA = 0.2


def limit_to_shares(ax: Axes) -> None:
    """Set the vertical axis to 0 to 1, with room for points at the ends."""
    ax.set_ylim(-0.05, 1.05)
