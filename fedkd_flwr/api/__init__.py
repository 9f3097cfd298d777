"""The Python door: what a notebook or a program uses, over the same runs as the command line's."""
