"""Many queries and long jobs: batching by a memory budget, resuming, executors."""
