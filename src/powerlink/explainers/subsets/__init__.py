"""Proposers that search sets of facts."""
