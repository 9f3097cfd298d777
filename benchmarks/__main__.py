"""``python -m benchmarks TABLE`` is ``fedkd bench TABLE``, in a checkout."""

import sys

from fedkd_flwr.cli.main import main

main(["bench", *sys.argv[1:]])
