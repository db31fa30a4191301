"""Installation: the state folder, the hooks, the guard, the settings, the demo."""
