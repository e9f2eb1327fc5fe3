"""Learned explainers: a mask, a few terms, and one learner. A paper is a recipe of these."""
