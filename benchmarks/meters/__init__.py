"""What is measured around a step: time, memory, the profiler's shares, the environment."""
