python train.py
sleep 3600
