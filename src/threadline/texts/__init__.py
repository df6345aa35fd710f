"""Every sentence that the program shows to people or to agents, one module for each component that says it.

A `{name}` in braces is filled in with `str.format`. What strangers wrote is never filled in as it is: it goes through
`threadline.model.safe_text` or `threadline.model.privacy` first. Sentences of errors stay with their errors, and those of a
prompt's context block with the code that builds it.
"""
