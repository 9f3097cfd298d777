"""Who has spent what, and who refuses; no disk here, see `fedkd_flwr.stores.ledger`."""
