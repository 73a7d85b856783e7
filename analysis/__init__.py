"""Pure functions on frames: scaling, memory, prediction, cost, decision, tables."""
