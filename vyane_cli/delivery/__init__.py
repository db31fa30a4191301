"""One hook call: plan, claim, output, settlement; and reaching a session."""
