package import Language

/// Directives that are planned but not implemented. sallyport refuses them by name, and never ignores one of them.
package let plannedDirectives: [DirectiveEntry] = []
