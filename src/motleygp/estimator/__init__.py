"""`MotleyGP`, the library as one scikit-learn estimator, and its baseline."""

from motleygp.estimator.estimator import MotleyGP as MotleyGP, load as load
from motleygp.estimator.independent import IndependentGPs as IndependentGPs
