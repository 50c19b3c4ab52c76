"""From the region of a loop's turn to the data that compiled code is made of."""
