"""The cases of the tester, their operands and exact results. The results share no arithmetic with `ops`."""
