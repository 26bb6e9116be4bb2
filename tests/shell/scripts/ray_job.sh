ray start --head --num-gpus=8
ray job submit --address http://127.0.0.1:8265 -- python train.py
