"""Ops about the program itself: control flow, calls, checks, random bits."""
