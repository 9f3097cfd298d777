"""``python -m fedkd_flwr.cli`` is the command ``fedkd``, for an environment that is not on the ``PATH``."""

from fedkd_flwr.cli.start import main

main()
