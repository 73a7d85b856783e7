"""Starts work: the command line, Hydra entry points, elastic agents, sweeps, resume."""
