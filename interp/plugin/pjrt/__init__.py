"""PJRT's C interface, function by function, and what a platform in Python needs below it."""
