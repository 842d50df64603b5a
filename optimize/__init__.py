"""Compiles the program against labelled questions: `python -m optimize`.

labels, check        what the labelled questions are, and whether they are sound
metrics, evaluate    what an answer is worth, and what it costs
head                 the router's head
gold, tune           retrieval and ranking, over candidates that are taken once
task, *_tasks        what each predictor learns from and is scored by
compile              few-shot examples for every predictor, by DSPy
thresholds           the bars between answering, asking the language model and refusing
plan, journal        what a run will cost, and what of it is done already
run, rivals, report  the whole run, before against after, and the tables
compare              one question's way through the program
"""
