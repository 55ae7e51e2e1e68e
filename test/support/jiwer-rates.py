"""Prints the word error rate of each pair of texts of a file as a line of JSON, by jiwer."""

import json
import sys

import jiwer

with open(sys.argv[1], encoding="utf-8") as pairs:
    for one, other in json.load(pairs):
        print(json.dumps({"rate": jiwer.wer(one, other)}))
