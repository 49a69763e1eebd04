"""What will go wrong with a training, found before it begins.

`facts.py` says what is looked at, `finding.py` what is found; the checks between them are functions of values. Reading
data, building the model and asking the machine is done at the edge, in `looking.py`, `tracing.py` and `examination.py`.
"""
