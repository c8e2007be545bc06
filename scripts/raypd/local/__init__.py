"""The chart's render run on this machine: the same Ray groups and serve config, on the CPU."""
