"""Tables: reading, encoding, units with their costs, and data larger than memory."""
