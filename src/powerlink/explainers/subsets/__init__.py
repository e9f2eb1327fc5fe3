"""Explainers that search for subgraphs: proposers, which ask what becomes of an answer without some facts."""
