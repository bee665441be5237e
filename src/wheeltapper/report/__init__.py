"""A survey in the forms that people read: a page, a summary, a table. Pure: text in, text out."""
