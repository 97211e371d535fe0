"""The parts of `toys.py`: methods and problems, runs, scores and tables."""
