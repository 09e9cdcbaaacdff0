"""What searches have found so far, in one compact file."""
