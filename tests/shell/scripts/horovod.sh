horovodrun -np 4 -H localhost:4 python train.py
horovodrun --verbose -np $NP python train.py
