"""Recording of gradscope's own runtime: converts the reports to its probe to rows."""
