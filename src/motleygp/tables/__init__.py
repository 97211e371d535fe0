"""Tables that users bring, and the likelihoods inferred from them."""
