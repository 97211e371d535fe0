"""Small settings of the authors' code, for tests."""

from motleygp_reproduce import authors


def settings_for(prior: str = "lmc", **changes) -> authors.Settings:
    return authors.settings_of("t1", prior=prior)._replace(
        **{"num_inducing": 6, "batch_size": 10, "num_latents": 2, **changes}
    )
