python train.py & TRAIN=$!
python monitor.py & MON=$!
wait $TRAIN
STATUS=$?
kill $MON
exit $STATUS
