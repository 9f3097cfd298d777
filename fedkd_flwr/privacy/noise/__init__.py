"""The only code that adds noise."""
