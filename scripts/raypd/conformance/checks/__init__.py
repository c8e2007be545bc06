"""One module for each group of checks."""
