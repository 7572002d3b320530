package import Language

private let noFiles = "sallyport serves files as they are, to GET and HEAD; proxy_pass to a server that has this"
private let noContent = "sallyport has no such filter; let the upstream do it"
private let noMail =
  "pass mail in stream, where starttls makes TLS of SMTP, IMAP and POP3; the mail server asks for passwords"
private let noDatagrams = "leave it out: it is for UDP, and sallyport passes connections of TCP"
private let oneUpstreamProtocol =
  "sallyport speaks HTTP, gRPC, FastCGI, SCGI and uwsgi to upstreams; put a gateway between them"
package let noCache = "sallyport keeps no copies; use a cache as upstream"
private let noScripts = "sallyport runs no scripts"
private let commercial = "it belongs to nginx's commercial edition"

private func family(_ prefix: String, _ suffixes: String) -> String {
  suffixes.split(whereSeparator: { $0 == " " || $0 == "\n" }).map { prefix + $0 }.joined(separator: " ")
}

/// All other directives of stock nginx 1.28. They are outside sallyport's scope; the error says what to do instead.
package let foreignDirectives: [DirectiveEntry] =
  DirectiveEntry.foreign(
    """
    create_full_put_path dav_access dav_methods min_delete_depth f4f f4f_buffer_size
    hls hls_buffers hls_forward_args hls_fragment hls_mp4_buffer_size hls_mp4_max_buffer_size
    """, instead: noFiles)
  + DirectiveEntry.foreign(
    """
    ssi ssi_ignore_recycled_buffers ssi_last_modified
    ssi_min_file_chunk ssi_silent_errors ssi_types ssi_value_length add_after_body add_before_body addition_types
    image_filter image_filter_buffer
    image_filter_interlace image_filter_jpeg_quality image_filter_sharpen image_filter_transparency
    image_filter_webp_quality xml_entities xslt_last_modified xslt_param xslt_string_param xslt_stylesheet xslt_types
    """, instead: noContent)
  + DirectiveEntry.foreign(
    """
    mail imap_auth imap_capabilities imap_client_buffer pop3_auth pop3_capabilities smtp_auth smtp_capabilities
    smtp_client_buffer smtp_greeting_delay protocol timeout xclient auth_http auth_http_header
    auth_http_pass_client_cert auth_http_timeout max_errors proxy_pass_error_message proxy_smtp_auth proxy_buffer
    """, instead: noMail)
  + DirectiveEntry.foreign("proxy_requests proxy_responses", instead: noDatagrams)
  + DirectiveEntry.foreign(
    "mqtt mqtt_preread mqtt_buffers mqtt_rewrite_buffer_size mqtt_set_connect",
    instead: "leave it out: sallyport passes MQTT in stream as it is")
  + ["fastcgi_", "scgi_", "uwsgi_"].flatMap { prefix in
    DirectiveEntry.foreign(family(prefix, "store store_access"), instead: noCache)
      + DirectiveEntry.foreign(prefix + "force_ranges", instead: "let the program answer ranges")
      + DirectiveEntry.foreign(family(prefix, "bind_dynamic request_dynamic"), instead: commercial)
  }
  + DirectiveEntry.foreign("uwsgi_string", instead: "set a parameter with uwsgi_param")
  + DirectiveEntry.foreign("uwsgi_ssl_key_log", instead: "session keys are never written")
  + DirectiveEntry.foreign(
    family(
      "grpc_",
      """
      ssl_key_log
      """), instead: "leave it out: it changes nothing that the upstream or the client sees")
  + DirectiveEntry.foreign(
    family(
      "memcached_",
      """
      bind buffer_size connect_timeout force_ranges gzip_flag next_upstream next_upstream_timeout next_upstream_tries
      key pass read_timeout send_timeout socket_keepalive
      """), instead: oneUpstreamProtocol)
  + DirectiveEntry.foreign(
    family(
      "tunnel_",
      """
      allow_upstream bind bind_dynamic buffer_size connect_timeout next_upstream next_upstream_timeout
      next_upstream_tries pass read_timeout send_lowat send_timeout socket_keepalive
      """), instead: "sallyport is not a forward proxy")
  + DirectiveEntry.foreign("proxy_store proxy_store_access", instead: noCache)
  + DirectiveEntry.foreign(
    "proxy_cache_purge fastcgi_cache_purge scgi_cache_purge uwsgi_cache_purge",
    instead: "leave out the location too, which asks to empty a cache: sallyport keeps no copies")
  + DirectiveEntry.foreign(
    "proxy_force_ranges",
    instead: "sallyport forwards Range and the upstream's answer to it; let the upstream answer ranges")
  + DirectiveEntry.foreign("proxy_ssl_key_log ssl_key_log", instead: "session keys are never written")
  + DirectiveEntry.foreign("ssl_engine", instead: "name the key of a token in ssl_certificate_key")
  + DirectiveEntry.foreign("ssl_ech_file ssl_encrypted_hello_key", instead: "OpenSSL 3.0 has no ECH")
  + DirectiveEntry.foreign(
    """
    js_access js_body_filter js_content js_engine js_context_reuse js_fetch_buffer_size js_fetch_ciphers
    js_fetch_max_response_buffer_size js_fetch_protocols js_fetch_timeout js_fetch_trusted_certificate js_fetch_verify
    js_fetch_verify_depth js_filter js_header_filter js_import js_include js_path js_periodic js_preload_object
    js_preread js_set js_shared_dict_zone js_var perl perl_modules perl_require perl_set
    """, instead: noScripts)
  + DirectiveEntry.foreign(
    """
    status_format status_zone session_log session_log_format session_log_zone sticky_cookie_insert
    queue ntlm proxy_session_drop auth_jwt auth_jwt_claim_set auth_jwt_header_set
    auth_jwt_key_cache auth_jwt_key_file auth_jwt_key_request auth_jwt_leeway auth_jwt_require auth_jwt_type auth_oidc
    oidc_provider internal_redirect mgmt license_token upstream_conf client_id issuer
    """, instead: commercial)
  + DirectiveEntry.foreign(
    """
    zone_sync zone_sync_buffers zone_sync_connect_retry_interval zone_sync_connect_timeout zone_sync_interval
    zone_sync_recv_buffer_size zone_sync_server zone_sync_ssl zone_sync_timeout
    """, instead: "it belongs to nginx's commercial edition; shared_store shares limits by way of Redis")
  + DirectiveEntry.foreign("require", instead: "a health check has no variables; use status, header and body")
  + DirectiveEntry.foreign(
    """
    geoip_city geoip_country geoip_org geoip_proxy geoip_proxy_recursive ancient_browser ancient_browser_value
    modern_browser modern_browser_value secure_link
    secure_link_md5 secure_link_secret userid userid_domain userid_expires userid_flags userid_mark userid_name
    userid_p3p userid_path userid_service
    """, instead: "decide in the upstream")
  + DirectiveEntry.foreign("post_action", instead: "leave it out")
