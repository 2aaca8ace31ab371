"""The lab, which measures on a real server what each kind of key costs."""
