/// Directives that are planned but not implemented. sallyport refuses them by name, and never ignores one of them.
let plannedDirectives: [DirectiveEntry] =
  DirectiveEntry.planned(
    "proxy_set_body proxy_bind proxy_limit_rate grpc_bind")
  + DirectiveEntry.planned("stub_status")
