"""Benchmarks: the costs of vyane, as ratios within one run. Run `python -m benchmarks`."""
