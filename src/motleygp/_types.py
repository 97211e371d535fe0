"""The names of array axes used throughout the library.

D outputs; N observations of one output (or rows of a block); P input columns;
L parameter functions of one likelihood; J parameter functions in all; Q latent
processes; G groups of inducing values (for the linear model of coregionalisation
the sum of the ranks R_q); M inducing points of one group; V variances of some
functions, with the covariances after them unless the functions are independent.
"""

from typing import TypeAlias

from jaxtyping import Array, Float, Key

Scalar: TypeAlias = Float[Array, ""]
# Means, and second moments as in `motleygp.numerics.packed`.
Moments: TypeAlias = tuple[Float[Array, "J N"], Float[Array, "V N"]]
RandomKey: TypeAlias = Key[Array, ""]
# The moments of one span's functions at its rows: see `motleygp.priors.Sites`.
SpanMoments: TypeAlias = tuple[Float[Array, "_ _"], Float[Array, "_ _"]]
