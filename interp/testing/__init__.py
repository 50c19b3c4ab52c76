"""Programs that check themselves: the check ops, and what is said where one does not hold."""
