"""The command ``fedkd``, one file per subcommand.

These modules import what they need when they are called, so that ``fedkd --help`` is quick.
"""
