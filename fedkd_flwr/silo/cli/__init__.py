"""The silo's subcommands of ``fedkd``: found through `fedkd_flwr.registry`."""
