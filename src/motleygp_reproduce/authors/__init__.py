"""What the published code of the paper's authors computes, re-implemented.

`settings_of` gives the settings of a data set, `fit` and `fit_seeds` train and score.
With the same start, rows and noise, every number of an iteration is that of the code up
to rounding. This is where the code differs from the paper:

- **Exploration of theta.** p and mu follow Adam: averages of the gradients and of their
  squares with rates 0.1 and 0.001, and a step with the root of p and a correction of
  the bias of averages that start at 0, although p starts at s_ini. lambda mu is in the
  averaged gradient, and lambda beside the root of p in the step. In the paper, p has
  the step of mu as its rate, mu has a heavy-ball momentum, and no bias is corrected.
- **theta.** Length-scales are log(1 + exp(x)) with x drawn from q(theta), and the prior
  is on x; in the paper, x is the logarithm of squared length-scales.
- **Natural gradients.** There is no momentum on q(u): the term is always 0. The
  gradient in the mean is clipped to +-5 in every entry. Where the new covariance has no
  Cholesky factor, it becomes 0.1 I and the mean 0. All steps are 0.005; the hybrid
  scheme has the same natural step.
- **Kernels.** All have variance 1 where the paper has normalised Gaussians. The
  convolution prior adds length-scales, l + 2 nu, where squared ones would add.
- **Jitter.** 1e-6 on K_uu of the linear model, none on that of the convolution prior,
  which gets it only for its factor, and only where there is none without; its
  projections come from a solve without jitter. Its q(u) has a covariance larger by
  1e-6 I in the variances of the functions alone.
- **Likelihoods.** Parameters are clipped in the integrands, and the derivatives ignore
  that. Functions of one output are taken as independent, as in the paper.
- **Minibatches.** Consecutive slices in the order of the file's first shuffle, again
  and again; the last one is shorter and weighs its rows more. The paper draws them.
- **Reported bounds** are those of one minibatch at one draw of theta.
- **Scores** are at one draw of theta, where the paper has mu, by 1000 draws of f. The
  density of the Gaussian output has variance 1 in them, whatever its noise is.
- **Starts.** Inducing points on a grid, permuted along all inputs but the first, and
  the same for all groups; zero offsets, as in the paper. See `start`.

What differs here from the code: random numbers after the start, which come from JAX;
rows, where the library's split is the same for all outputs; special functions and
solves up to rounding; and a run goes on with values that are not numbers where the code
would stop with an error.
"""

from motleygp_reproduce.authors.running import Run, fit, fit_seeds
from motleygp_reproduce.authors.settings import (
    PRIORS,
    SCHEMES,
    Settings,
    settings_of,
)

__all__ = ["PRIORS", "SCHEMES", "Run", "Settings", "fit", "fit_seeds", "settings_of"]
