@testable import Configuration
@testable import Features
@testable import Forward
@testable import Language
@testable import Traffic

extension DirectiveSample {
  /// The samples of `stream` where its context says or needs something else than `http`, by context and name.
  static let stream: [String: DirectiveSample] = {
    var samples: [String: DirectiveSample] = [:]
    for (name, sample) in ofStream {
      let contexts = Features.all.directives.table.entries(named: name).flatMap {
        $0.contexts.intersection([.main, .stream, .streamServer, .streamUpstream]).each
      }
      // A name without a row keeps its key, which a test refuses.
      if contexts.isEmpty { samples["stream/\(name)"] = sample }
      for context in contexts { samples["\(context.names.joined())/\(name)"] = sample }
    }
    return samples.merging(own) { $1 }
  }()

  private static let checked = "proxy_pass u; health_check; "
  private static let plain = "listen 127.0.0.1:443;"
  private static let format = "log_format combined $status; "
  private static let zone = "limit_conn_zone $remote_addr zone=c:1m; "
  private static let target = "proxy_pass $ssl_server_name:1; "

  /// By context and name.
  private static let own: [String: DirectiveSample] = [
    "stream/server": .init("server { listen 127.0.0.1:80; return a; }"),
    "upstream in stream/server": .init("server 127.0.0.1:1;"),
    "stream/health_check_timeout": .init("health_check_timeout 2s;", location: checked),
    "server in stream/health_check_timeout": .init("health_check_timeout 2s;", location: checked),
    "stream/match": .init(
      "match m { expect a; }", or: "match m { expect b; }", location: "proxy_pass u; health_check match=m;"),
    "match in stream/send": .init("send a;", or: "send b;", location: "proxy_pass u; health_check match=m;"),
    "match in stream/expect": .init("expect a;", or: "expect b;", location: "proxy_pass u; health_check match=m;"),
  ]

  /// By name: the same in each context of `stream`.
  private static let ofStream: [String: DirectiveSample] = [
    "stream": .init(
      "stream { server { listen 80; return a; } }", or: "stream { server { listen 81; return a; } }", isWhole: true),
    "proxy_protocol_timeout": .init("proxy_protocol_timeout 7s;"),
    "ssl_handshake_timeout": .init("ssl_handshake_timeout 7s;"),
    "ssl_alpn": .init("ssl_alpn a;", or: "ssl_alpn a b;"),
    "connection_max_time": .init("connection_max_time 7s;"),
    "ssl_preread": .init("ssl_preread on;", listen: plain, server: ""),
    "preread_buffer_size": .init("preread_buffer_size 7k;", beside: "ssl_preread on;", listen: plain, server: ""),
    "preread_timeout": .init("preread_timeout 7s;", beside: "ssl_preread on;", listen: plain, server: ""),
    "starttls": .init("starttls smtp;", or: "starttls imap;"),
    "proxy_starttls": .init("proxy_starttls smtp;", or: "proxy_starttls imap;"),
    "set": .init("set $x y;"),
    "return": .init("return a;", or: "return b;", location: ""),
    "pass": .init("pass 127.0.0.1:1;", or: "pass 127.0.0.1:2;", location: ""),
    "proxy_pass": .init("proxy_pass u;", or: "proxy_pass 127.0.0.1:1;", location: ""),
    "proxy_ssl": .init("proxy_ssl on;", location: "proxy_pass u; " + anchors + name),
    "proxy_ssl_alpn": .init("proxy_ssl_alpn a;", or: "proxy_ssl_alpn a b;"),
    "proxy_timeout": .init("proxy_timeout 7s;"),
    "proxy_half_close": .init("proxy_half_close on;"),
    "proxy_upload_rate": .init("proxy_upload_rate 7k;"),
    "proxy_download_rate": .init("proxy_download_rate 7k;"),
    "proxy_next_upstream": .init("proxy_next_upstream off;"),
    "proxy_ssl_certificate_cache": .init(
      "proxy_ssl_certificate_cache max=7;",
      beside: "proxy_ssl_certificate $ssl_server_name.pem; proxy_ssl_certificate_key a.key;"),
    "resolver": .init("resolver 127.0.0.1;", or: "resolver 127.0.0.1 ipv6=off;", location: target),
    "resolver_timeout": .init("resolver_timeout 3s;", beside: "resolver 127.0.0.1;", location: target),
    "hash": .init("hash $remote_addr;", or: "hash $remote_addr consistent;"),
    "map": .init("map $remote_addr $m { a 1; }", or: "map $remote_addr $m { a 2; }"),
    "split_clients": .init(
      "split_clients $remote_addr $s { 10% a; * b; }", or: "split_clients $remote_addr $s { 11% a; * b; }"),
    "access_log": .init("access_log /x.log combined;", http: format),
    "open_log_file_cache": .init(
      "open_log_file_cache max=7;", beside: "access_log /logs/$server_addr.log combined;", http: format),
    "log_format": .init("log_format f $pid;", or: "log_format f $status;", beside: "access_log /x.log f;"),
    "limit_conn_zone": .init(
      "limit_conn_zone $remote_addr zone=z:1m;", or: "limit_conn_zone $remote_addr zone=z:2m;",
      location: pass + anchors + name + "limit_conn z 1;"),
    "limit_conn": .init("limit_conn c 7;", http: zone),
    "limit_conn_dry_run": .init("limit_conn_dry_run on;", beside: "limit_conn c 3;", http: zone),
    "limit_conn_log_level": .init("limit_conn_log_level info;", beside: "limit_conn c 3;", http: zone),
  ]
}
