n=0
until [ "$n" -ge 5 ]; do
  python train.py && break
  n=$((n+1))
  sleep 15
done
