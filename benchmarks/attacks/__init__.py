"""Attacks on the command line, the library and the server, with what they cost."""
