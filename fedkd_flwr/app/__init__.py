"""The Flower app: run config in, strategies and clients out, mounted as ServerApp and ClientApp."""
