tensorboard --logdir logs --port 6006 &
nvidia-smi dmon -s pucm > smi.log &
MON=$!
python train.py &
wait $!
kill $MON
