"""Reads its input line by line, then to the end, and what is left in the folder."""
# stdin: 1.5 2
# stdin: 3
# stdin: rest
# arguments: --steps 2 --name=x -o out

import argparse
import sys

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int)
parser.add_argument("--name")
parser.add_argument("-o")
print(parser.parse_args())
x = torch.tensor([float(each) for each in input().split()], requires_grad=True)
x.prod().backward()
print(x.grad.tolist(), input("more? "))
print(repr(sys.stdin.read()), sys.argv[1:], sys.path[0] != "", sys.flags.no_site)
try:
    input()
except EOFError as error:
    print(type(error).__name__, error)
