/// Directives that are planned but not implemented. sallyport refuses them by name, and never ignores one of them.
let plannedDirectives: [DirectiveEntry] =
  DirectiveEntry.planned(
    "proxy_set_body proxy_cookie_domain proxy_cookie_path proxy_cookie_flags proxy_bind proxy_limit_rate grpc_bind")
  + DirectiveEntry.planned(
    "hash ip_hash least_conn random", meanwhile: "leave it out: sallyport selects servers by weight, in turn")
  + DirectiveEntry.planned("resolver resolver_timeout", meanwhile: "leave it out: sallyport uses the system's resolver")
  + DirectiveEntry.planned(
    "rewrite if break", meanwhile: "use a location with a regular expression, captures and `return`")
  + DirectiveEntry.planned("map geo split_clients map_hash_bucket_size map_hash_max_size")
  + DirectiveEntry.planned("limit_except", meanwhile: "decide in the upstream")
  + DirectiveEntry.planned("add_trailer expires", meanwhile: "add_header sets Cache-Control")
  + DirectiveEntry.planned("satisfy auth_delay")
  + DirectiveEntry.planned(
    """
    limit_req limit_req_zone limit_req_dry_run limit_req_log_level limit_req_status limit_conn limit_conn_zone
    limit_conn_dry_run limit_conn_log_level limit_conn_status limit_rate limit_rate_after
    """)
  + DirectiveEntry.planned("stub_status recursive_error_pages")
