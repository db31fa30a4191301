"""Pure values and rules that every other package uses. Imports none of these packages."""
