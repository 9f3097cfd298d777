"""Run config and node config: strings become objects here and nowhere else."""
