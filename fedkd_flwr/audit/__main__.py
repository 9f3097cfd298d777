"""The command ``python -m fedkd_flwr.audit``: attack a simulated run. It stands with the apps, above its room."""

import sys

from fedkd_flwr.apps.audit import main

if __name__ == "__main__":
    sys.exit(main())
