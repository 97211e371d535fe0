"""`MotleyGP`, the library behind one scikit-learn estimator."""

from motleygp.estimator.estimator import MotleyGP as MotleyGP, load as load
from motleygp.estimator.independent import IndependentGPs as IndependentGPs
