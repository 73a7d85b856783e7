"""The command line with a fork server that imports torch alone: the faults have no use for models, and start sooner."""

import launch.ranks.agent
from launch.cli import main

launch.ranks.agent.PRELOAD = ["benchmarks.ranks"]

if __name__ == "__main__":
    main()
