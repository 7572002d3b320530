@testable import Traffic
@testable import Forward
@testable import Features
import ConfigurationSupport
import Crypto
import TestSupport
import Testing

@testable import Review

/// `sallyport check --diff` of servers of `stream`.
@Suite struct StreamDifferenceTests {
  private static let pin = "sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="

  private static let base = """
    events {}
    http { server { listen 127.0.0.1:8080; server_name web.example; return 200 x; } }
    stream {
      limit_conn_zone $remote_addr zone=c:1m;
      upstream db { server 127.0.0.1:5432; }
      server {
        listen 127.0.0.1:6432 ssl;
        server_name db.example;
        ssl_certificate server.pem; ssl_certificate_key server.key;
        ssl_client_certificate ca.pem;
        ssl_verify_client on;
        ssl_client_allow cn=alice;
        starttls postgres;
        allow 10.0.0.0/8; deny all;
        limit_conn c 4;
        proxy_pass db;
        proxy_ssl on;
        proxy_starttls postgres;
        proxy_ssl_trusted_certificate ca.pem;
        proxy_ssl_name db.internal;
        proxy_ssl_pin \(pin);
      }
      server { listen 127.0.0.1:6433; ssl_preread on; proxy_pass 127.0.0.1:1; }
      server { listen 127.0.0.1:6434; return hello; }
      server { listen 127.0.0.1:6435; pass 127.0.0.1:6434; }
    }
    """

  /// What is replaced by what, the direction, and words of the sentence.
  private static let cases: [(from: String, to: String, direction: TrustChange.Direction, words: String)] = [
    (
      "ssl_verify_client on;\n    ssl_client_allow cn=alice;", "ssl_verify_client off;", .opens,
      "stream server db.example (CONF:6:3): clients are no longer asked for a certificate"
    ),
    ("ssl_verify_client on;", "ssl_verify_client optional;", .opens, "clients get in with a certificate of its CAs"),
    ("ssl_client_allow cn=alice;", "", .opens, "ssl_client_allow no longer limits which clients get in"),
    ("ssl_client_allow cn=alice;", "ssl_client_allow cn=bob;", .opens, "clients that match cn=bob get in"),
    ("starttls postgres;\n", "", .other, "clients begin with TLS at once (no starttls)"),
    (
      "proxy_starttls postgres;", "", .other,
      "stream server db.example (CONF:6:3): the upstream is no longer asked for TLS (proxy_starttls)"
    ),
    ("deny all;", "", .opens, "clients from all other addresses are no longer denied"),
    ("allow 10.0.0.0/8;", "allow 10.0.0.0/8; allow 192.0.2.7;", .opens, "clients from 192.0.2.7 are allowed"),
    ("limit_conn c 4;", "limit_conn c 5;", .opens, "the number of connections at a time by limit_conn of zone c"),
    (
      "proxy_ssl on;\n    proxy_starttls postgres;", "", .opens,
      "stream server db.example (CONF:6:3): connections go to the upstream in plaintext"
    ),
    ("proxy_ssl_pin \(pin);", "", .opens, "the upstream's key is no longer pinned (was \(pin))"),
    ("proxy_ssl_name db.internal;", "proxy_ssl_name other.internal;", .other, "must have the name other.internal"),
    ("proxy_ssl_trusted_certificate ca.pem;", "proxy_ssl_verify off;", .opens, "a chain that does not verify"),
    ("proxy_pass db;", "proxy_pass db; proxy_protocol on;", .other, "told the client by a PROXY header (version 1)"),
    (
      "server 127.0.0.1:5432;", "server 127.0.0.1:5432; server 127.0.0.1:5439;", .opens,
      "connections go to 127.0.0.1:5439"
    ),
    (
      "listen 127.0.0.1:6432 ssl;", "listen 127.0.0.1:6432 ssl proxy_protocol;", .opens,
      "the PROXY header on 127.0.0.1:6432 says who the client is"
    ),
    (
      "listen 127.0.0.1:6432 ssl;", "listen 127.0.0.1:6432 ssl; listen 127.0.0.1:6439 ssl;", .opens,
      "listens on 127.0.0.1:6439 with TLS"
    ),
    ("ssl_preread on;", "", .other, "the name of a ClientHello no longer selects the server block (ssl_preread)"),
    ("return hello;", "return other;", .other, "stream server 127.0.0.1:6434 (CONF:24:3): return sends another text"),
    ("return hello;", "proxy_pass db;", .opens, "forwards to db"),
    ("pass 127.0.0.1:6434;", "pass 127.0.0.1:6433;", .other, "connections pass to the listener 127.0.0.1:6433"),
    (
      "server { listen 127.0.0.1:6434; return hello; }", "", .closes, "stream server 127.0.0.1:6434 is gone"
    ),
    (
      "server { listen 127.0.0.1:6434;", "server { listen 127.0.0.1:6440; return x; } server { listen 127.0.0.1:6434;",
      .opens, "stream server 127.0.0.1:6440 (CONF:24:3) is new: clients get in without TLS"
    ),
  ]

  private func stage(_ scene: Scene) throws { try scene.serverFiles() }

  @Test func `each change is told by its own sentence`() throws {
    try withScene { scene in
      try stage(scene)
      #expect(try scene.changes(from: Self.base, to: Self.base) == [])
      for (from, to, direction, words) in Self.cases {
        #expect(Self.base.contains(from), "\(from)")
        let text = Self.base.replacing(from, with: to, maxReplacements: 1)
        let (there, _) = try scene.expectChange(direction, words, from: Self.base, to: text)
        #expect(!there.contains { $0.sentence.contains("requests") }, "\(there)")
      }
    }
  }

  @Test func `a server that moves to the other block is told, and compared as far as it can be`() throws {
    try withScene { scene in
      try stage(scene)
      let old = """
        events {} http { server { listen 127.0.0.1:8443 ssl; server_name a.example; ssl_certificate server.pem;
        ssl_certificate_key server.key; ssl_client_certificate ca.pem; ssl_verify_client on;
        location / { proxy_pass http://127.0.0.1:1; } } }
        """
      let new = """
        events {} stream { server { listen 127.0.0.1:8443 ssl; server_name a.example; ssl_certificate server.pem;
        ssl_certificate_key server.key; ssl_client_certificate ca.pem; ssl_verify_client optional;
        proxy_pass 127.0.0.1:1; } }
        """
      let there = try scene.changes(from: old, to: new)
      let place = "(\(scene.path("new.conf")):1:20)"
      for sentence in [
        "stream server a.example \(place) is of stream now (was of http)",
        "stream server a.example \(place): clients get in with a certificate of its CAs, or with none",
        "stream server a.example \(place): forwards to 127.0.0.1:1",
      ] {
        #expect(there.contains { $0.direction == .opens && $0.sentence == sentence }, "\(sentence) in \(there)")
      }
      #expect(!there.contains { $0.sentence.contains("is gone") || $0.sentence.contains("is new") }, "\(there)")
      let back = try scene.changes(from: new, to: old)
      #expect(back.contains { $0.direction == .other && $0.sentence.contains("is of http now (was of stream)") })
      #expect(back.contains { $0.sentence.contains("location / of server a.example") }, "\(back)")
    }
  }
}
