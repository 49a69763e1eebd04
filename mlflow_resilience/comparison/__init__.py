"""Runs side by side: is the result of one that went through faults that of one that did not?"""
