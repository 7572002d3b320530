import ConfigurationSupport
import Crypto
@testable import Features
@testable import Forward
import Observability
import TLS
import Testing
@testable import Traffic

/// A server whose lines begin in line 2, column 1, and that answers something.
private func server(_ lines: String) -> LoadedText { LoadedText("http { server {\n\(lines)\nreturn 204; } }") }

/// 53 characters.
private let verifying = "ssl_verify_client on; ssl_client_certificate ca.cer; "

private let pair = "listen 443 ssl; ssl_certificate s.cer; ssl_certificate_key s.key;\n"

@Suite struct ServerTLSTests {
  @Test(arguments: [
    (
      "listen 443 ssl;",
      "1:8 no \"ssl_certificate\" is defined for a server that listens with ssl | ssl_certificate FILE; ssl_certificate_key FILE; or ssl_reject_handshake on;"
    ),
    (
      "listen 443 ssl; ssl_certificate a; ssl_certificate_key k; ssl_certificate b;",
      "2:59 no \"ssl_certificate_key\" is defined for certificate \"b\" | write the keys in the order of the certificates; a PKCS#12 among several certificates needs a key line too"
    ),
    (
      "listen 443 ssl; ssl_certificate a; ssl_certificate_key k; ssl_certificate_key l;",
      "2:59 \"ssl_certificate_key\" without \"ssl_certificate\" | name the certificate that the key belongs to"
    ),
    (
      pair + "ssl_verify_client on;",
      "3:1 no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client | name the CA that client certificates come from: ssl_client_certificate ca.cer; or pin the clients' keys: ssl_client_pin sha256//…;"
    ),
    (
      pair + "ssl_client_certificate ca.cer;",
      "3:1 warning: the server does not ask for client certificates: ssl_verify_client is off | ssl_verify_client on; or write ssl_verify_client off; to confirm"
    ),
    (
      "listen 443; ssl_verify_client on; ssl_client_certificate ca.cer;",
      "2:13 no client can present a certificate: the server has no listen with ssl | listen 443 ssl;"
    ),
    (
      "listen 443; ssl_certificate a;",
      "2:13 warning: the certificate is never used: the server has no listen with ssl | listen 443 ssl;"
    ),
    (
      pair + "listen 80; ssl_verify_client on; ssl_client_certificate ca.cer;",
      "3:12 warning: clients of this server's listen without ssl can't present a certificate | use a separate server for it, with: return 301 https://$host$request_uri;"
    ),
    (
      pair + "add_header Transfer-Encoding chunked;",
      "3:12 \"Transfer-Encoding\" can't be set by add_header | sallyport sets the framing fields itself: remove this line"
    ),
    (
      pair + "ssl_early_data on; ssl_protocols TLSv1.2;",
      "3:1 warning: \"ssl_early_data\" has no effect: TLSv1.3 is not among ssl_protocols | ssl_early_data off;"
    ),
    (
      pair + "ssl_early_data on; ssl_session_cache off;",
      "3:1 warning: \"ssl_early_data\" has no effect: no session is kept with ssl_session_cache off | ssl_early_data off;"
    ),
    (
      pair + "ssl_early_data on; ssl_session_ticket_key t.key;",
      "3:1 warning: \"ssl_early_data\" has no effect: with ssl_session_ticket_key a session may be used twice, so what came with it may be a replay | ssl_early_data off;"
    ),
    (
      pair + "ssl_early_data on; ssl_verify_client on; ssl_client_certificate ca.cer; ssl_ocsp on;",
      "3:1 warning: \"ssl_early_data\" has no effect: the responders of ssl_ocsp are asked when the handshake is over | ssl_early_data off;"
    ),

    (
      "listen 443 ssl; ssl_certificate $uri; ssl_certificate_key k;",
      "2:33 \"$uri\" has a variable that is not known when the certificate is chosen | $ssl_server_name, $server_name, $server_addr, $server_port and $remote_addr are, and so is a map, geo or split_clients of them"
    ),
    (
      "listen 443 ssl; ssl_certificate store:$ssl_server_name; ssl_certificate_key k;",
      "2:33 \"store:\" in \"ssl_certificate\" is not supported where a certificate has variables | name files: sallyport reads nothing else during a handshake"
    ),
    (
      "listen 443 ssl; ssl_certificate $server_name.pem; ssl_certificate_key k;",
      "2:33 the server has no name that can be part of a file's name, for $server_name | server_name NAME; or write the file's name out"
    ),
    (
      "listen 443 ssl; ssl_certificate $ssl_server_name.pem; ssl_certificate_key k;",
      "2:33 notice: each handshake reads the files of \"/etc/${ssl_server_name}.pem\", as in nginx | ssl_certificate_cache max=1000 valid=1h; keeps them; or ssl_certificate_cache off; to confirm"
    ),
    (
      pair + "ssl_certificate_cache max=5;",
      "3:1 warning: \"ssl_certificate_cache\" has no effect: no certificate here has variables | other certificates are read at start and at reload, and stay in memory"
    ),
    (
      "listen 443 ssl; ssl_certificate $ssl_server_name.pem; ssl_certificate_key k;\nssl_certificate_cache valid=5s;",
      "3:1 \"ssl_certificate_cache\" must have the \"max\" parameter | ssl_certificate_cache max=1000;"
    ),
    (
      "listen 443 ssl; ssl_certificate $ssl_server_name.pem; ssl_certificate_key k;\nssl_certificate_cache max=0;",
      "3:23 invalid parameter \"max=0\" | max=1 to max=100000: certificates and keys to keep"
    ),
    (
      pair + "ssl_buffer_size 64k;",
      "3:17 invalid value \"64k\" in \"ssl_buffer_size\" directive | a TLS record carries 512 to 16384 bytes (16k)"
    ),
    (
      pair + "ssl_session_cache shared:a:1k;",
      "3:19 invalid session cache \"shared:a:1k\" | shared:NAME:SIZE, SIZE at least 32k: shared:tls:10m"
    ),
    (
      pair + "ssl_session_cache shared;",
      "3:19 invalid session cache \"shared\" | off, none, builtin[:SESSIONS] or shared:NAME:SIZE"
    ),
    (
      "listen 443 ssl; ssl_certificate store:x;",
      "2:33 \"store:x\": store: names a private key, which is not what is wanted here | name a PEM, DER or PKCS#12 file, or a systemd credential as credential:NAME"
    ),
    (
      pair + "ssl_crl a.crl;",
      "3:1 warning: \"ssl_crl\" has no effect: the server asks no client for a certificate | ssl_verify_client on;"
    ),
    (
      pair + verifying + "ssl_crl http://a.test/a.crl;",
      "3:62 \"ssl_crl http://a.test/a.crl\" needs \"ssl_crl_cache\": without a kept list, no client could get in after a restart | ssl_crl_cache FOLDER; a folder that the serving user may write"
    ),
    (
      pair + verifying + "ssl_crl_fetch on;",
      "3:54 \"ssl_crl_fetch\" needs \"ssl_crl_cache\": without a kept list, no client could get in after a restart | ssl_crl_cache FOLDER; a folder that the serving user may write"
    ),
    (
      pair + verifying + "ssl_crl_cache c; ssl_crl http://b.test/ https://a.test/a.crl;",
      "3:94 invalid URL \"https://a.test/a.crl\" in \"ssl_crl\" | http://HOST[:PORT]/PATH: lists are signed, so https is not needed"
    ),
    (
      pair + verifying + "ssl_crl_cache c; ssl_crl_fetch on a.test;",
      "3:85 invalid host \"on\" in \"ssl_crl_fetch\" directive | on, off, or the hosts that publish the lists: HOST or HOST:PORT"
    ),
    (
      pair + verifying + "ssl_crl_cache c; ssl_crl_fetch http://a.test;",
      "3:85 invalid host \"http://a.test\" in \"ssl_crl_fetch\" directive | on, off, or the hosts that publish the lists: HOST or HOST:PORT"
    ),
    (
      pair + verifying + "ssl_crl_cache c refresh=0s; ssl_crl_fetch on;",
      "3:70 invalid parameter \"refresh=0s\" in \"ssl_crl_cache\" directive | refresh=TIME, 1s to 1y, such as refresh=10m"
    ),
    (
      pair + verifying + "ssl_crl_cache credential:c; ssl_crl_fetch on;",
      "3:68 invalid folder \"credential:c\" in \"ssl_crl_cache\" directive | name a folder"
    ),
    (
      pair + verifying + "ssl_crl_cache c;",
      "3:54 warning: \"ssl_crl_cache\" has no effect: no revocation list is fetched here | ssl_crl http://…; or ssl_crl_fetch HOST;"
    ),
    (
      pair + verifying + "ssl_reload off; ssl_crl_cache c; ssl_crl_fetch on;",
      "3:54 \"ssl_reload off\" where revocation lists are fetched: no new list would count | ssl_reload on; or name files with ssl_crl"
    ),
    (
      pair + "ssl_crl_cache c; ssl_crl_fetch on;",
      "3:18 \"ssl_crl_fetch\" is incompatible with \"ssl_verify_client off\" | only a verified chain may name what is fetched: ssl_verify_client on;"
    ),
    (
      pair + "ssl_ocsp on;",
      "3:1 \"ssl_ocsp\" is incompatible with \"ssl_verify_client off\" | OCSP needs verified chains: ssl_verify_client on;"
    ),
    (
      pair + "ssl_stapling on; ssl_stapling_responder https://x/;",
      "3:41 invalid URL \"https://x/\" in \"ssl_stapling_responder\" | http://HOST[:PORT]/PATH: OCSP responses are signed, so https is not needed"
    ),
    (
      pair + "ssl_ocsp_cache shared:a;",
      "3:16 invalid OCSP cache \"shared:a\" | off, or shared:NAME:SIZE, SIZE at least 32k"
    ),
    (
      pair + "ssl_session_ticket_key t.key; ssl_session_tickets off;",
      "3:1 warning: \"ssl_session_ticket_key\" has no effect: the server issues no tickets | remove it, or ssl_session_tickets off and ssl_session_cache off"
    ),
  ])
  func `a contradiction in a server's TLS has its place`(lines: String, problem: String) {
    #expect(server(lines).problems == [problem])
  }

  @Test(arguments: [
    pair + "ssl_verify_client off; ssl_client_certificate ca.cer;", "listen 80; ssl_verify_client off;",
    pair + "listen 80;", pair + "ssl_verify_client on; ssl_client_certificate ca.cer; ssl_crl a.crl;",
    pair + "ssl_ocsp off;",
  ])
  func `what only looks like a contradiction is none`(lines: String) {
    #expect(server(lines).problems == [])
  }

  @Test func `CAs of a server count for the verification that it inherits`() {
    #expect(
      LoadedText("http { ssl_verify_client on; server { \(pair) ssl_client_certificate ca.cer; return 204; } }")
        .problems
        == [])
  }

  /// As in nginx: OpenSSL gets the command behind the directive.
  @Test(arguments: [
    ("ssl_session_tickets off; ssl_conf_command Options SessionTicket;", true),
    ("ssl_session_tickets off; ssl_conf_command options ServerPreference,+sessionticket;", true),
    ("ssl_conf_command Options -SessionTicket;", false),
    ("ssl_conf_command Options -SessionTicket; ssl_conf_command Options SessionTicket;", true),
    ("ssl_session_tickets off; ssl_conf_command Options PrioritizeChaCha;", false),
    ("ssl_conf_command Options PrioritizeChaCha;", true), ("ssl_session_tickets off;", false),
  ])
  func `ssl_conf_command decides about session tickets, too`(lines: String, hasTickets: Bool) throws {
    let loaded = server(pair + lines)
    #expect(loaded.errors == [])
    #expect(try #require(loaded.settings?.http.servers.first?.tls).sessionTickets == hasTickets)
  }

  @Test func `a server that rejects every handshake needs no certificate`() {
    #expect(server("listen 443 ssl; ssl_reject_handshake on;").problems == [])
  }

  @Test func `any certificate asked for needs no anchors`() {
    #expect(server(pair + "ssl_verify_client optional_no_ca;").problems == [])
  }

  @Test func `verification may be inherited by a server of plain text`() {
    #expect(
      LoadedText(
        "http { ssl_verify_client on; ssl_client_certificate ca; server { listen 80; return 301 https://$host/; } }"
      ).problems == [])
  }

  @Test func `ssl on is obsolete and makes every listen speak TLS`() throws {
    let loaded = server("listen 443; ssl on; ssl_certificate a.p12;")
    #expect(loaded.problems == ["2:13 warning: the \"ssl\" directive is obsolete | write \"listen … ssl\" instead"])
    #expect(try #require(loaded.settings).http.listeners.map(\.isTLS) == [true])
  }

  @Test func `a server's TLS has nginx's defaults`() throws {
    let tls = try #require(server(pair).settings?.http.servers.first?.tls)
    #expect(tls.verification == .off && tls.verifyDepth == 1 && tls.versions == [.tls12, .tls13])
    #expect(tls.ciphers == nil && tls.curves == nil && !tls.preferServerCiphers)
    #expect(tls.sessionCache == .none && tls.sessionTickets && tls.sessionTimeout == 300 && tls.bufferSize == 16384)
  }

  @Test func `a server's TLS says what its lines say, and inherits the rest`() throws {
    let loaded = LoadedText(
      """
      http {
        ssl_protocols TLSv1.3; ssl_verify_depth 4; ssl_conf_command A 1; ssl_session_cache shared:t:1m;
        server { listen 443 ssl; ssl_certificate a; ssl_certificate_key ka; ssl_certificate b; ssl_certificate_key kb;
          ssl_verify_client optional; ssl_trusted_certificate ca; ssl_verify_depth 2; ssl_conf_command B 2;
          ssl_ecdh_curve X25519; ssl_session_timeout 1h; return 204; }
      }
      """)
    let tls = try #require(loaded.settings?.http.servers.first?.tls)
    #expect(tls.certificates.map(\.certificate.description) == ["a", "b"])
    #expect(tls.certificates.compactMap(\.key?.description) == ["ka", "kb"])
    #expect(tls.certificates.first?.certificate.spelling == .path("/etc/a"))
    #expect(tls.versions == .tls13 && tls.verifyDepth == 2 && tls.verification == .optional)
    #expect(tls.confCommands.map(\.name) == ["B"])
    #expect(tls.sessionCache == .shared(name: "t", bytes: 1 << 20) && tls.sessionTimeout == 3600)
    #expect(tls.curves == "X25519")
  }
}
