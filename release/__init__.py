"""What a release needs: generated files, builds, and trials of what was built."""
