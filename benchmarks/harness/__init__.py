"""The harness of the published tables: ``python -m benchmarks.harness`` runs them again, in a clone."""
