"""Pictures on the caller's Matplotlib axes.

Every function that draws takes the axes as its first argument and returns them. The
caller sets legends and titles; axis labels are set where the picture determines them.
"""

from motleygp.plotting._calibration import (
    coverage_curve as coverage_curve,
    pit_histogram as pit_histogram,
    reliability_curve as reliability_curve,
)
from motleygp.plotting._curves import (
    along as along,
    observations as observations,
    partial_dependence as partial_dependence,
    predictive_curve as predictive_curve,
)
from motleygp.plotting._inspection import (
    heat_map as heat_map,
    relevance_bars as relevance_bars,
)
from motleygp.plotting._maps import (
    inducing_points as inducing_points,
    predictive_map as predictive_map,
)
from motleygp.plotting._training import restart_boxes as restart_boxes, trace as trace
