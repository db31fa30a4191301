"""Installation: the home, the hooks, the guard, the settings, the demo."""
