"""What the record teaches: rates with their intervals, patterns in time, repeat offenders. Pure; knows no database."""
