commands=("python a.py" "python b.py")
for c in "${commands[@]}"; do
  $c &
done
wait
