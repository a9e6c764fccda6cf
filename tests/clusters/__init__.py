"""Random distributed jobs: see README.md."""
