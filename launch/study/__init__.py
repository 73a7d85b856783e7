"""A study's cells in order: which to measure, within which budget, kept whatever happens."""
