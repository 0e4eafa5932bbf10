package sockacct

//go:generate go tool bpf2go -cc clang-14 -strip llvm-strip-14 -target bpfel -type conn_row -type verdict -type loss sockacct sockacct.bpf.c -- -O2 -g -Wall -Werror -Wno-missing-declarations -mcpu=v3 -I/usr/include/x86_64-linux-gnu
