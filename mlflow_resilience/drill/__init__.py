"""The drill: does a recipe's training come through each fault, at each moment, with the result of an undisturbed run?

``matrix`` says which cells there are, ``arranging`` how each is struck, ``running`` runs it as a user would, ``facts``
reads what is left of it, ``verdict`` judges, and ``scorecard`` tells.
"""
