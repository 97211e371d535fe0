"""Numerical methods: factorisations, quadrature and special functions."""
