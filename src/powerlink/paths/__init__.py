"""Stage 5: the best loopless paths from head to tail under a cost per edge."""
