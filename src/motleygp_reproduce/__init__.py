"""Re-implementations of published methods, to compare the library with."""
