nohup python train.py > train.log 2>&1 &
tail -f train.log
