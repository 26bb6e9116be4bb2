module stoker.dev/benchmarks/webhook

go 1.22
