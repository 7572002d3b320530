import Language

/// A module that isn't part of nginx: its directives and variables, for messages. sallyport has none of them.
package struct ForeignModule: Sendable {
  /// As its users call it.
  package var name: String
  /// What `load_module` names, without a folder.
  package var files: Set<String> = []
  /// Names of directives; `*` stands for any text.
  package var directives: [String] = []
  /// Names of variables without `$`; `*` stands for any text.
  package var variables: [String] = []
  /// What to do instead; for a module that is not missed, what takes its place.
  package var instead: String
  /// Whether its lines are taken without effect: nobody is let in, told or refused anything by the module.
  package var isHarmless = false

  package static func ofDirective(_ name: String) -> ForeignModule? {
    foreignModules.first { $0.directives.contains { Self.matches(name, $0) } }
  }

  package static func ofVariable(_ name: String) -> ForeignModule? {
    let name = name.lowercased()
    return foreignModules.first { $0.variables.contains { Self.matches(name, $0) } }
  }

  /// Whether the text is what the pattern says, in which `*` stands for any text: one in the middle, or one at either end.
  private static func matches(_ text: String, _ pattern: String) -> Bool {
    let parts = pattern.split(separator: "*", omittingEmptySubsequences: false)
    guard let first = parts.first, let last = parts.last, parts.count > 1 else { return text == pattern }
    guard text.hasPrefix(first), text.hasSuffix(last), text.utf8.count >= first.utf8.count + last.utf8.count else {
      return false
    }
    return parts.dropFirst().dropLast().allSatisfy { text.dropFirst(first.count).contains($0) }
  }
}

private let spans =
  "otel_exporter { endpoint URL; } with otel_trace on; exports spans, and trace_context on; passes them on"
private let otherProtocol =
  "stream { server { listen PORT; proxy_pass ADDRESS:PORT; } } passes the bytes on; for HTTP clients, put a gateway between"
private let noScripts = "sallyport runs no scripts; decide with map, if and auth_request, or in the upstream"
private let variablesOfIngress = "it is a variable of that template, not of nginx; define it with set or map"

/// What configurations out of packages, images and Kubernetes often have.
package let foreignModules: [ForeignModule] = [
  ForeignModule(
    name: "headers-more", files: ["ngx_http_headers_more_filter_module.so"], directives: ["more_*"],
    instead: "add_header and proxy_hide_header for responses, proxy_set_header for requests"),
  ForeignModule(
    name: "lua-nginx-module (OpenResty)", files: ["ngx_http_lua_module.so", "ngx_stream_lua_module.so"],
    directives: ["*_by_lua*", "lua_*"], variables: ["lua_*"],
    instead: noScripts),
  ForeignModule(
    name: "ingress-nginx's template",
    variables: [
      "best_http_host", "pass_access_scheme", "pass_port", "pass_server_port", "proxy_upstream_name",
      "proxy_alternative_upstream_name", "proxy_upstream_addr", "redirect_to_https", "the_real_ip",
      "full_x_forwarded_proto", "req_id",
    ], instead: variablesOfIngress),
  ForeignModule(
    name: "ngx_http_voms_module", variables: ["voms_*"],
    instead: "sallyport reads no VOMS attributes of proxy certificates; let the upstream read $ssl_client_escaped_cert"),
  ForeignModule(
    name: "set-misc-nginx-module", files: ["ngx_http_set_misc_module.so"],
    directives: [
      "set_unescape_uri", "set_escape_uri", "set_hashed_upstream", "set_if_empty", "set_quote_*", "set_encode_*",
      "set_decode_*", "set_md5", "set_sha1", "set_hmac_*", "set_random", "set_secure_random_*", "set_rotate",
      "set_local_today", "set_formatted_*", "set_crypt", "set_misc_*",
    ], instead: "map covers what depends on values; the rest is the upstream's"),
  ForeignModule(
    name: "memc-nginx-module", files: ["ngx_http_memc_module.so"], directives: ["memc_*"], instead: otherProtocol),
  ForeignModule(
    name: "ngx_http_uploadprogress_module", files: ["ngx_http_uploadprogress_module.so"],
    directives: ["track_uploads", "report_uploads", "upload_progress", "upload_progress_*"],
    instead: "let the upstream read the form"),
  ForeignModule(
    name: "echo-nginx-module", files: ["ngx_http_echo_module.so"], directives: ["echo", "echo_*"],
    variables: ["echo_*"],
    instead: "return CODE TEXT; answers with a text"),
  ForeignModule(
    name: "ngx_brotli", files: ["ngx_http_brotli_filter_module.so", "ngx_http_brotli_static_module.so"],
    directives: ["brotli", "brotli_*"], variables: ["brotli_ratio"],
    instead: "gzip compresses, and upstreams may", isHarmless: true),
  ForeignModule(
    name: "zstd-nginx-module", files: ["ngx_http_zstd_filter_module.so", "ngx_http_zstd_static_module.so"],
    directives: ["zstd", "zstd_*"], variables: ["zstd_ratio"],
    instead: "gzip compresses, and upstreams may", isHarmless: true),
  ForeignModule(
    name: "ModSecurity-nginx", files: ["ngx_http_modsecurity_module.so"], directives: ["modsecurity", "modsecurity_*"],
    instead: "put the firewall behind sallyport"),
  ForeignModule(
    name: "naxsi", files: ["ngx_http_naxsi_module.so"],
    directives: ["MainRule", "BasicRule", "CheckRule", "SecRulesEnabled", "LearningMode", "DeniedUrl"],
    instead: "put the firewall behind sallyport"),
  ForeignModule(
    name: "ngx_http_geoip2_module", files: ["ngx_http_geoip2_module.so", "ngx_stream_geoip2_module.so"],
    directives: ["geoip2", "geoip2_*"], variables: ["geoip2_*"],
    instead: "geo with the networks, or decide in the upstream"),
  ForeignModule(
    name: "nginx-module-vts", files: ["ngx_http_vhost_traffic_status_module.so"],
    directives: ["vhost_traffic_status", "vhost_traffic_status_*"], variables: ["vts_*"],
    instead: "metrics; and status;"),
  ForeignModule(
    name: "nginx-opentracing", files: ["ngx_http_opentracing_module.so"], directives: ["opentracing", "opentracing_*"],
    variables: ["opentracing_*"],
    instead: spans),
  ForeignModule(
    name: "opentelemetry's module", files: ["ngx_http_opentelemetry_module.so"],
    directives: ["opentelemetry", "opentelemetry_*"], variables: ["opentelemetry_*"],
    instead: spans),
  ForeignModule(
    name: "nginx-auth-ldap", files: ["ngx_http_auth_ldap_module.so"],
    directives: ["auth_ldap", "auth_ldap_*", "ldap_server"],
    instead: "auth_request to a service that asks the directory"),
  ForeignModule(
    name: "ngx_http_auth_pam_module", files: ["ngx_http_auth_pam_module.so"], directives: ["auth_pam", "auth_pam_*"],
    instead: "auth_basic, or auth_request"),
  ForeignModule(
    name: "spnego-http-auth-nginx-module", files: ["ngx_http_auth_spnego_module.so"],
    directives: ["auth_gss", "auth_gss_*"],
    instead: "auth_request to a service that knows Kerberos"),
  ForeignModule(
    name: "ngx_http_substitutions_filter_module", files: ["ngx_http_subs_filter_module.so"],
    directives: ["subs_filter", "subs_filter_*"],
    instead: "sub_filter replaces texts, without regular expressions"),
  ForeignModule(
    name: "nginx-upstream-fair", files: ["ngx_http_upstream_fair_module.so"], directives: ["fair"],
    instead: "least_conn; or least_time;"),
  ForeignModule(
    name: "nginx_upstream_check_module", files: ["ngx_http_upstream_check_module.so"],
    directives: ["check", "check_*"], instead: "health_check;"),
  ForeignModule(
    name: "nginx-upsync-module", files: ["ngx_http_upsync_module.so"], directives: ["upsync", "upsync_*"],
    instead: "server … resolve;"),
  ForeignModule(
    name: "ngx_cache_purge", files: ["ngx_http_cache_purge_module.so"], directives: ["cache_purge_*"], instead: noCache),
  ForeignModule(
    name: "srcache-nginx-module", files: ["ngx_http_srcache_filter_module.so"], directives: ["srcache_*"],
    instead: noCache),
  ForeignModule(
    name: "ngx_pagespeed", files: ["ngx_pagespeed.so"], directives: ["pagespeed", "pagespeed_*"],
    instead: "leave it out, or let the upstream do it"),
  ForeignModule(
    name: "nginx-rtmp-module", files: ["ngx_rtmp_module.so"], directives: ["rtmp", "rtmp_*"], instead: otherProtocol),
  ForeignModule(
    name: "Phusion Passenger", files: ["ngx_http_passenger_module.so"], directives: ["passenger_*"],
    instead: "start the application and name it in proxy_pass"),
  ForeignModule(
    name: "nchan", files: ["ngx_nchan_module.so"], directives: ["nchan_*"], variables: ["nchan_*"],
    instead: "put it behind sallyport as an upstream"),
  ForeignModule(
    name: "ngx-fancyindex", files: ["ngx_http_fancyindex_module.so"], directives: ["fancyindex", "fancyindex_*"],
    instead: "autoindex on; lists folders"),
  ForeignModule(
    name: "nginx-upload-module", files: ["ngx_http_upload_module.so"], directives: ["upload_*"],
    instead: "let the upstream read the form"),
  ForeignModule(
    name: "nginx-dav-ext-module", files: ["ngx_http_dav_ext_module.so"], directives: ["dav_ext_*"],
    instead: "let the upstream do it"),
  ForeignModule(
    name: "nginx-ajp-module", files: ["ngx_http_ajp_module.so"], directives: ["ajp_*"], instead: otherProtocol),
  ForeignModule(
    name: "redis2-nginx-module", files: ["ngx_http_redis2_module.so"], directives: ["redis_*", "redis2_*"],
    instead: otherProtocol),
]
