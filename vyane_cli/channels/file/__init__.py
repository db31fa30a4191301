"""The file channel: Markdown files that a person reads and writes."""
