"""``python -m fedkd_flwr.commands`` is the command ``fedkd``, for an environment that is not on the ``PATH``."""

from fedkd_flwr.commands.start import main

main()
