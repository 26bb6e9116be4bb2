python train.py || sleep infinity
