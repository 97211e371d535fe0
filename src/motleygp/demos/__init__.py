"""Demonstrations that the command runs."""
