/// Directives that are planned but not implemented. sallyport refuses them by name, and never ignores one of them.
let plannedDirectives: [DirectiveEntry] =
  DirectiveEntry.planned("resolver resolver_timeout", meanwhile: "leave it out: sallyport uses the system's resolver")
