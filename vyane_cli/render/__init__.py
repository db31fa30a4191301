"""Values to text: for a person, for a program."""
