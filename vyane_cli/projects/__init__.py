"""Projects, tasks, goals, and the rounds that keep them moving."""
