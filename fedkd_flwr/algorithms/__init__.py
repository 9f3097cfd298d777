"""Each algorithm as data (its card) and as arithmetic on arrays: NumPy only, no Flower, no disk, no clock."""
