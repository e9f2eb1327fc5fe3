"""Stage 7: the same explanation as JSON Lines, as text, as one HTML page and as a figure."""
