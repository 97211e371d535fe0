"""Answers by brute force, which share nothing with the library."""
