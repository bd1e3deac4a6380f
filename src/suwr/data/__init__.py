"""Tables: reading, encoding, units and costs, tables larger than memory."""
