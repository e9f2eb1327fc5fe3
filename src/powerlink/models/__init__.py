"""The thing explained: link models, their training and their ranking."""
