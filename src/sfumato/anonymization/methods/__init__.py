"""Methods of `anonymize` that blur values; `registry` names them for users."""
