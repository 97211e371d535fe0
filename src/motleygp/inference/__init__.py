"""The model and its bound: data, priors and likelihoods joined under one q(u)."""
