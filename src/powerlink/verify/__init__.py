"""Stage 6: what the model says when paths are removed, and when only they are kept. Proof decides the order."""
