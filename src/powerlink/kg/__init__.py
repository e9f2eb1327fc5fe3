"""Stage 1: facts with names."""
