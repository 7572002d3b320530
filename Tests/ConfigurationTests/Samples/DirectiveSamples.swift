@testable import Configuration
@testable import Features
@testable import Forward
@testable import Language
@testable import Traffic

extension DirectiveSample {
  /// By name, or by context and name where a name means two things.
  static let all: [String: DirectiveSample] = main.merging(http) { $1 }.merging(tls) { $1 }.merging(upstreamTLS) { $1 }
    .merging(proxy) { $1 }.merging(ours) { $1 }.merging(grpc) { $1 }.merging(programs) { $1 }.merging(rewriting) { $1 }
    .merging(limits) { $1 }
    .merging(balance) { $1 }.merging(resolver) { $1 }
    .merging(subrequests) { $1 }
    .merging(signatures) { $1 }.merging(acme) { $1 }.merging(openTelemetry) { $1 }
    .merging(outgoing) { $1 }
    .merging(files) { $1 }
    .merging(stream) { $1 }

  /// The samples of the proxy module, where the gRPC module has the row.
  private static let grpc: [String: DirectiveSample] = {
    var samples = [
      "grpc_pass": DirectiveSample("grpc_pass grpc://u;", or: "grpc_pass grpc://127.0.0.1:1;", location: "")
    ]
    let proxied = proxy.merging(upstreamTLS, uniquingKeysWith: { $1 }).merging(outgoing, uniquingKeysWith: { $1 })
    for (name, sample) in proxied where name.hasPrefix("proxy_") {
      let own = name.replacing("proxy_", with: "grpc_")
      if own != "grpc_pass",
        Features.all.directives.table.entries(named: own).contains(where: { $0.status == .supported })
      {
        samples[own] = sample.inGRPC
      }
    }
    return samples
  }()

  /// The samples of the proxy module, where a module for servers of programs has the row, and those of its own rows.
  private static let programs: [String: DirectiveSample] = {
    var samples: [String: DirectiveSample] = [
      "fastcgi_index": .init("fastcgi_index x.php;"),
      "fastcgi_split_path_info": .init("fastcgi_split_path_info ^(.+)(/.*)$;"),
      "fastcgi_keep_conn": .init("fastcgi_keep_conn on;", location: "fastcgi_pass u;"),
      "fastcgi_catch_stderr": .init("fastcgi_catch_stderr \"PHP Fatal error\";", location: "fastcgi_pass u;"),
      "uwsgi_modifier1": .init("uwsgi_modifier1 5;", location: "uwsgi_pass u;"),
      "uwsgi_modifier2": .init("uwsgi_modifier2 255;", location: "uwsgi_pass u;"),
    ]
    let proxied = proxy.merging(upstreamTLS, uniquingKeysWith: { $1 }).merging(outgoing, uniquingKeysWith: { $1 })
    for module in ["fastcgi", "scgi", "uwsgi"] {
      for (name, sample) in proxied where name.hasPrefix("proxy_") {
        let own = name.replacing("proxy_", with: "\(module)_")
        if Features.all.directives.table.entries(named: own).contains(where: { $0.status == .supported }) {
          samples[own] = sample.inModule(module)
        }
      }
      samples["\(module)_pass"] = .init("\(module)_pass u;", or: "\(module)_pass 127.0.0.1:1;", location: "")
      samples["\(module)_param"] = .init("\(module)_param X y if_not_empty;", location: "\(module)_pass u;")
    }
    return samples
  }()

  private static let main: [String: DirectiveSample] = [
    "include": .init("include more.conf;"),
    "user": .init("user somebody;"),
    "sandbox": .init("sandbox off;"),
    "worker_processes": .init("worker_processes 2;"),
    "worker_rlimit_nofile": .init("worker_rlimit_nofile 4096;"),
    "worker_rlimit_core": .init("worker_rlimit_core 1m;"),
    "spiffe_endpoint": .init("spiffe_endpoint unix:/x.sock;"),
    "worker_shutdown_timeout": .init("worker_shutdown_timeout 5s;"),
    "pid": .init("pid x.pid;"),
    "error_log": .init("error_log /x.log;"),
    "events": .init("events { worker_connections 77; }"),
    "worker_connections": .init("worker_connections 77;"),
    "http": .init(
      "http { server { listen 80; return 204; } }", or: "http { server { listen 81; return 204; } }", isWhole: true),
  ]

  private static let http: [String: DirectiveSample] = [
    "http/server": .init("server { listen 80; return 204; }"),
    "listen": .init("listen 127.0.0.1:444 ssl;"),
    "server_name": .init("server_name a.test;"),
    "location": .init("location /x { return 204; }"),
    "metrics": .init("metrics;", location: ""),
    "stub_status": .init("stub_status;", location: ""),
    "location/status": .init("status;", location: ""),
    "trace_context": .init("trace_context on;", or: "trace_context restart;"),
    "internal": .init("internal;"),
    "error_page": .init("error_page 502 /x;"),
    "add_header": .init("add_header X y;"),
    "add_header_inherit": .init(
      "add_header_inherit off;", server: certificate + clients + " add_header Z z;",
      location: pass + anchors + name + " add_header X y; location /in { }"),
    "add_trailer": .init("add_trailer X y;"),
    "add_trailer_inherit": .init(
      "add_trailer_inherit off;", server: certificate + clients + " add_trailer Z z;",
      location: pass + anchors + name + " add_trailer X y; location /in { }"),
    "expires": .init("expires 1d;"),
    "charset": .init("charset utf-8;"),
    "charset_types": .init("charset_types text/css;", beside: "charset utf-8;"),
    "source_charset": .init("source_charset $arg_s;", beside: "charset utf-8;"),
    "override_charset": .init("override_charset on;", beside: "charset utf-8;"),
    "charset_map": .init("charset_map a b { C0 C1; }"),
    "sub_filter": .init("sub_filter a b;"),
    "sub_filter_types": .init("sub_filter_types text/css;", beside: "sub_filter a b;"),
    "sub_filter_once": .init("sub_filter_once off;", beside: "sub_filter a b;"),
    "sub_filter_last_modified": .init("sub_filter_last_modified on;", beside: "sub_filter a b;"),
    "chunked_transfer_encoding": .init("chunked_transfer_encoding off;"),
    "early_hints": .init("early_hints $http_x;"),
    "set_real_ip_from": .init("set_real_ip_from 10.0.0.0/8;"),
    "real_ip_header": .init("real_ip_header X-Forwarded-For;", beside: "set_real_ip_from 10.0.0.1;"),
    "real_ip_recursive": .init("real_ip_recursive on;", beside: "set_real_ip_from 10.0.0.1;"),
    "allow": .init("allow 127.0.0.1;"),
    "deny": .init("deny all;"),
    "access_log": .init("access_log /x.log;"),
    "audit_log": .init("audit_log /audit.log every=5s;", or: "audit_log /other.log required;"),
    "open_log_file_cache": .init("open_log_file_cache max=7;", beside: "access_log /logs/$host.log;"),
    "log_format": .init("log_format f $uri;", or: "log_format f $host;", beside: "access_log /x.log f;"),
    "keepalive_timeout": .init("keepalive_timeout 7s;"),
    "keepalive_requests": .init("keepalive_requests 7;"),
    "keepalive_time": .init("keepalive_time 7s;"),
    "state": .init("state /s/one;", or: "state /s/two;", beside: "zone z 64k;"),
    "client_header_timeout": .init("client_header_timeout 7s;"),
    "client_body_timeout": .init("client_body_timeout 7s;"),
    "client_max_body_size": .init("client_max_body_size 7m;"),
    "client_body_buffer_size": .init("client_body_buffer_size 7k;"),
    "large_client_header_buffers": .init("large_client_header_buffers 2 4k;"),
    "ignore_invalid_headers": .init("ignore_invalid_headers off;"),
    "underscores_in_headers": .init("underscores_in_headers on;"),
    "path_readings": .init("path_readings parameters decode;"),
    "merge_slashes": .init("merge_slashes off;"),
    "http2": .init("http2 on;"),
    "http2_max_concurrent_streams": .init("http2_max_concurrent_streams 7;"),
    "http2_body_preread_size": .init("http2_body_preread_size 7k;"),
    "send_timeout": .init("send_timeout 7s;"),
    "lingering_close": .init("lingering_close off;"),
    "lingering_time": .init("lingering_time 7s;"),
    "lingering_timeout": .init("lingering_timeout 7s;"),
    "reset_timedout_connection": .init("reset_timedout_connection on;"),
    "server_tokens": .init("server_tokens off;"),
    "absolute_redirect": .init("absolute_redirect off;"),
    "port_in_redirect": .init("port_in_redirect off;"),
    "server_name_in_redirect": .init("server_name_in_redirect on;"),
  ]

  private static let tls: [String: DirectiveSample] = [
    "ssl": .init("ssl on;", listen: "listen 127.0.0.1:443;", server: certificate + "ssl_verify_client off;"),
    "ssl_certificate": .init("ssl_certificate a.pem;", or: "ssl_certificate b.pem;", server: clients),
    "ssl_certificate_cache": .init(
      "ssl_certificate_cache max=7;",
      server: "ssl_certificate $ssl_server_name.pem; ssl_certificate_key k.pem;" + clients),
    "ssl_certificate_key": .init("ssl_certificate_key a.key;", beside: "ssl_certificate a.pem;", server: clients),
    "ssl_password_file": .init("ssl_password_file p;"),
    "ssl_client_certificate": .init(
      "ssl_client_certificate a.pem;", or: "ssl_client_certificate b.pem;",
      server: certificate + "ssl_verify_client on;"),
    "ssl_trusted_certificate": .init("ssl_trusted_certificate more.pem;"),
    "ssl_crl": .init("ssl_crl crl.pem;"),
    "ssl_crl_fetch": .init("ssl_crl_fetch on;", beside: "ssl_crl_cache lists;"),
    "ssl_crl_cache": .init("ssl_crl_cache lists refresh=7s;"),
    "ssl_verify_client": .init(
      "ssl_verify_client on;", server: certificate + "ssl_client_certificate ca.pem;"),
    "ssl_client_allow": .init("ssl_client_allow cn=a;"),
    "ssl_client_deny": .init("ssl_client_deny cn=a;"),
    "ssl_client_pin": .init(
      "ssl_client_pin sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=;", server: certificate + clients),
    "ssl_client_pinning": .init(
      "ssl_client_pinning certificate;", or: "ssl_client_pinning public_key;", beside: "ssl_client_pin a.pem;"),
    "client_record": .init("client_record who.clients days=7;", or: "client_record who.clients limit=9;"),
    "ssl_client_purpose": .init("ssl_client_purpose any;", beside: "ssl_client_allow cn=a;"),
    "client_identity": .init("client_identity rfc9440;"),
    "client_identity_keys": .init("client_identity_keys;", location: ""),
    "client_token": .init("client_token jwks=keys.json;", or: "client_token jwks=keys.json optional;"),
    "client_token_require": .init("client_token_require sub al;", beside: "client_token jwks=keys.json;"),
    "client_token_set": .init(
      "client_token_set $who sub;", or: "client_token_set $who email;", beside: "client_token jwks=keys.json;"),
    "real_client_cert_from": .init(
      "real_client_cert_from 10.0.0.1;", or: "real_client_cert_from 10.0.0.2;",
      beside: "real_client_cert_header Client-Cert rfc9440;"),
    "real_client_cert_header": .init(
      "real_client_cert_header Client-Cert rfc9440;", or: "real_client_cert_header Client-Cert pem;",
      beside: "real_client_cert_from 10.0.0.1;"),
    "ssl_revoked_connections": .init("ssl_revoked_connections drain 10s;"),
    "ssl_verify_reject": .init("ssl_verify_reject handshake;"),
    "ssl_verify_report_only": .init("ssl_verify_report_only on;"),
    "ssl_verify_candidate": .init(
      "ssl_verify_candidate { ssl_client_certificate next.pem; }",
      or: "ssl_verify_candidate { ssl_client_certificate other.pem; }"),
    "ssl_verify_depth": .init("ssl_verify_depth 2;"),
    "ssl_protocols": .init("ssl_protocols TLSv1.3;"),
    "ssl_ciphers": .init("ssl_ciphers HIGH;"),
    "ssl_prefer_server_ciphers": .init("ssl_prefer_server_ciphers on;"),
    "ssl_ecdh_curve": .init("ssl_ecdh_curve X25519;"),
    "ssl_dhparam": .init("ssl_dhparam dh.pem;"),
    "ssl_conf_command": .init("ssl_conf_command Options PrioritizeChaCha;"),
    "ssl_reject_handshake": .init("ssl_reject_handshake on;"),
    "ssl_session_cache": .init("ssl_session_cache shared:x:1m;"),
    "ssl_session_tickets": .init("ssl_session_tickets off;"),
    "ssl_expiry_warning": .init("ssl_expiry_warning 30d;"),
    "ssl_session_timeout": .init("ssl_session_timeout 7s;"),
    "ssl_session_ticket_key": .init("ssl_session_ticket_key t.key;"),
    "ssl_ocsp": .init("ssl_ocsp on;"),
    "ssl_ocsp_cache": .init("ssl_ocsp_cache shared:x:1m;", beside: "ssl_ocsp on;"),
    "ssl_ocsp_responder": .init("ssl_ocsp_responder http://o.test/;", beside: "ssl_ocsp on;"),
    "ssl_stapling": .init("ssl_stapling on;"),
    "ssl_stapling_file": .init("ssl_stapling_file s.der;", beside: "ssl_stapling on;"),
    "ssl_stapling_responder": .init("ssl_stapling_responder http://o.test/;", beside: "ssl_stapling on;"),
    "ssl_reload": .init("ssl_reload off;"),
    "ssl_early_data": .init("ssl_early_data on;", server: certificate),
    "ssl_certificate_compression": .init("ssl_certificate_compression on;", server: certificate),
    "ssl_buffer_size": .init("ssl_buffer_size 4k;"),
  ]

  private static let pin = "proxy_ssl_pin sha256//AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=;"

  private static let upstreamTLS: [String: DirectiveSample] = [
    "proxy_ssl_verify": .init("proxy_ssl_verify off;", beside: pin, location: pass + name),
    "proxy_ssl_trusted_certificate": .init(
      "proxy_ssl_trusted_certificate a.pem;", or: "proxy_ssl_trusted_certificate b.pem;",
      location: pass + name),
    "proxy_ssl_crl": .init("proxy_ssl_crl crl.pem;"),
    "proxy_ssl_trust_system": .init("proxy_ssl_trust_system on;"),
    "proxy_ssl_verify_name": .init("proxy_ssl_verify_name off;"),
    "proxy_ssl_spiffe_id": .init(
      "proxy_ssl_spiffe_id spiffe://a/b;", or: "proxy_ssl_spiffe_id spiffe://a/c;",
      location: pass + "proxy_ssl_trusted_certificate spiffe:; "),
    "proxy_ssl_verify_depth": .init("proxy_ssl_verify_depth 2;"),
    "proxy_ssl_pinning": .init(
      "proxy_ssl_pinning certificate;", or: "proxy_ssl_pinning public_key;", beside: "proxy_ssl_pin up.pem;"),
    "proxy_ssl_pin": .init(pin),
    "proxy_ssl_pin_report_only": .init("proxy_ssl_pin_report_only on;", beside: pin),
    "proxy_ssl_allow_invalid": .init("proxy_ssl_allow_invalid on;", beside: pin),
    "proxy_ssl_name": .init("proxy_ssl_name v.test;", or: "proxy_ssl_name w.test;", location: pass + anchors),
    "proxy_ssl_server_name": .init("proxy_ssl_server_name on;"),
    "proxy_ssl_certificate": .init("proxy_ssl_certificate a.pem;"),
    "proxy_ssl_certificate_cache": .init(
      "proxy_ssl_certificate_cache max=7;",
      beside: "proxy_ssl_certificate $http_x.pem; proxy_ssl_certificate_key a.key;"),
    "proxy_ssl_certificate_key": .init("proxy_ssl_certificate_key a.key;", beside: "proxy_ssl_certificate a.pem;"),
    "proxy_ssl_password_file": .init("proxy_ssl_password_file p;"),
    "proxy_ssl_session_reuse": .init("proxy_ssl_session_reuse off;"),
    "proxy_ssl_revoked_connections": .init("proxy_ssl_revoked_connections close;"),
    "proxy_ssl_protocols": .init("proxy_ssl_protocols TLSv1.3;"),
    "proxy_ssl_ecdh_curve": .init("proxy_ssl_ecdh_curve X25519;"),
    "proxy_ssl_ciphers": .init("proxy_ssl_ciphers HIGH;"),
    "proxy_ssl_conf_command": .init("proxy_ssl_conf_command Options PrioritizeChaCha;"),
  ]

  private static let proxy: [String: DirectiveSample] = [
    "proxy_pass": .init("proxy_pass http://u;", or: "proxy_pass http://127.0.0.1:1;", location: ""),
    "proxy_http_version": .init("proxy_http_version 1.0;"),
    "proxy_method": .init("proxy_method POST;"),
    "proxy_set_header": .init("proxy_set_header X y;"),
    "proxy_pass_request_headers": .init("proxy_pass_request_headers off;"),
    "proxy_pass_request_body": .init("proxy_pass_request_body off;"),
    "proxy_hide_header": .init("proxy_hide_header X;"),
    "proxy_pass_header": .init("proxy_pass_header Server;"),
    "proxy_cookie_domain": .init("proxy_cookie_domain a b;"),
    "proxy_cookie_path": .init("proxy_cookie_path /a /b;"),
    "proxy_cookie_flags": .init("proxy_cookie_flags a secure;"),
    "proxy_redirect": .init("proxy_redirect off;", or: "proxy_redirect /a /b;"),
    "proxy_intercept_errors": .init("proxy_intercept_errors on;"),
    "proxy_buffering": .init("proxy_buffering off;"),
    "proxy_buffer_size": .init("proxy_buffer_size 7k;"),
    "proxy_buffers": .init("proxy_buffers 3 7k;"),
    "proxy_request_buffering": .init("proxy_request_buffering off;"),
    "proxy_connect_timeout": .init("proxy_connect_timeout 7s;"),
    "proxy_send_timeout": .init("proxy_send_timeout 7s;"),
    "proxy_read_timeout": .init("proxy_read_timeout 7s;"),
    "proxy_next_upstream": .init("proxy_next_upstream off;"),
    "proxy_next_upstream_tries": .init("proxy_next_upstream_tries 7;"),
    "proxy_next_upstream_timeout": .init("proxy_next_upstream_timeout 7s;"),
    "proxy_ignore_client_abort": .init("proxy_ignore_client_abort on;"),
    "upstream": .init("upstream v { server 127.0.0.1:1; }"),
    "upstream/server": .init("server 127.0.0.1:1;"),
    "keepalive": .init("keepalive 7;"),
    "health_check": .init("health_check;"),
    "match": .init(
      "match m { status 200; }", or: "match m { status 201; }",
      location: pass + anchors + name + "health_check match=m;"),
    "status": .init("status 200;", or: "status 201;", location: pass + anchors + name + "health_check match=m;"),
    "header": .init("header a;", or: "header b;", location: pass + anchors + name + "health_check match=m;"),
    "body": .init("body ~ a;", or: "body ~ b;", location: pass + anchors + name + "health_check match=m;"),
  ]

  /// All that an envelope needs, less the directive that is looked at.
  private static func envelope(less name: String = "") -> String {
    let lines = [
      "message_envelope on", "message_envelope_cipher aes-256-cbc", "message_envelope_key a.key",
      "message_envelope_mac_key b.key",
    ]
    return lines.filter { !$0.hasPrefix(name + " ") }.map { $0 + "; " }.joined()
  }

  private static let password = "auth_basic r; auth_basic_user_file u; "
  private static let enrolment = "enrolment on; enrolment_authority ca; " + password
  private static let users = "proxy_auth_user_file u; "

  private static let ours: [String: DirectiveSample] = [
    "message_envelope": .init("message_envelope on;", beside: envelope(less: "message_envelope")),
    "message_envelope_cipher": .init(
      "message_envelope_cipher aes-128-cbc;", or: "message_envelope_cipher aes-256-cbc;",
      beside: envelope(less: "message_envelope_cipher")),
    "message_envelope_key": .init(
      "message_envelope_key c.key;", or: "message_envelope_key d.key;", beside: envelope(less: "message_envelope_key")),
    "message_envelope_mac": .init("message_envelope_mac hmac-sha1 payload;", beside: envelope()),
    "message_envelope_mac_key": .init(
      "message_envelope_mac_key c.key;", or: "message_envelope_mac_key d.key;",
      beside: envelope(less: "message_envelope_mac_key")),
    "message_envelope_replay_window": .init("message_envelope_replay_window 7s;", beside: envelope()),
    "message_envelope_max_size": .init("message_envelope_max_size 7k;", beside: envelope()),
    "proxy_auth": .init("proxy_auth basic;", beside: users),
    "proxy_auth_user_file": .init(
      "proxy_auth_user_file a;", or: "proxy_auth_user_file b;", beside: "proxy_auth basic;"),
    "proxy_auth_space": .init("proxy_auth_space https://u;", beside: users + "proxy_auth basic;"),
    "proxy_auth_persistence": .init("proxy_auth_persistence none;", beside: users + "proxy_auth basic;"),
    "proxy_auth_state": .init(
      "proxy_auth_state a;", or: "proxy_auth_state b;",
      beside: users + "proxy_auth basic; proxy_auth_persistence permanent;"),
    "auth_basic": .init("auth_basic r;", beside: "auth_basic_user_file u;"),
    "auth_basic_user_file": .init(
      "auth_basic_user_file a;", or: "auth_basic_user_file b;", beside: "auth_basic r;"),
    "enrolment": .init("enrolment on;", location: "enrolment_authority ca; " + password),
    "enrolment_authority": .init(
      "enrolment_authority a;", or: "enrolment_authority b;", location: "enrolment on; " + password),
    "enrolment_lifetime": .init("enrolment_lifetime 24h;", location: enrolment),
    "enrolment_renew_before": .init("enrolment_renew_before 7d;", location: enrolment),
    "enrolment_pkcs12": .init("enrolment_pkcs12 legacy;", location: enrolment),
    "enrolment_max_devices": .init("enrolment_max_devices 7;", location: enrolment),
    "enrolment_failures": .init("enrolment_failures 7;", location: enrolment),
  ]
}
