"""Stages 2 and 3: what a model passes messages over, and what a set of queries can see of it."""
