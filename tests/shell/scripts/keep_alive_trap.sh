python train.py
trap : TERM INT
sleep infinity & wait
