"""What the tester asks: cases, their operands, and the exact results, which share no arithmetic with `ops`."""
