"""What a real silo has around its client: its node, its rules, the door with approval and log, readiness."""
