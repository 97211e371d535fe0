"""Numbers: factorisations, quadrature and special functions."""
