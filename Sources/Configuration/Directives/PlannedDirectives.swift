import Language

/// Directives that are planned but not implemented. sallyport refuses them by name, and never ignores one of them.
let plannedDirectives: [DirectiveEntry] = []
