main() {
  setup
  train "$@"
}
setup() { pip install -q -e . ; mkdir -p out; }
train() { python -u train.py --out out "$@"; }
main "$@"
