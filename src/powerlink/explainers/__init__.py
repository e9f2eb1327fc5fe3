"""Stage 4: one number in (0, 1] per edge. Explainers differ here and only here."""
