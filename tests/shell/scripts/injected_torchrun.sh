# The injected variables say how many.
torchrun train.py --epochs 10
