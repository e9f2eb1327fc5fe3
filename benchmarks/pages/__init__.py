"""One module for each page of docs/results/: it turns saved results into text."""
