"""How fast, how large and how accurate: one question a file, see README.md."""
