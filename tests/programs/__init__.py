"""Random Programs: made by seed, run in several ways, compared, and cut down where a comparison fails. See README.md."""
