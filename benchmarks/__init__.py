"""What vyane costs, as ratios in one run: `python -m benchmarks`."""
