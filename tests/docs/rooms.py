"""The rooms of the package, in their order."""

# A room is a folder directly below the package. A room imports only the rooms in front of it.
# `home.py` stands among them: it opens a state folder, and has the hosts and channels of a process.
ORDER = (
    "kernel", "storage", "hosts", "channels", "home", "timeline", "sessions", "history",
    "attention", "mail", "children", "delivery", "conversations", "projects", "upkeep", "setup",
    "health", "cli",
)  # fmt: skip
