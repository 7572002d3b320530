import ConfigurationSupport
@testable import Features
@testable import Forward
import Observability
import Testing
@testable import Traffic

private let listen = "listen 443 ssl; ssl_certificate a.p12;\n"
private let clients = "ssl_client_certificate ca.cer; ssl_verify_client on;\n"
private let header = "real_client_cert_header Client-Cert rfc9440;"
private let pin = "sha256//47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU="
private let at = "the server at /etc/x.conf:1:8"

/// A server whose lines begin in line 2, column 1, and that answers something.
private func server(_ lines: String) -> LoadedText { LoadedText("http { server {\n\(lines)\nreturn 204; } }") }

@Suite struct `Fronts, as configured` {
  @Test(arguments: [
    (
      listen + clients + "real_client_cert_from 10.0.0.1;",
      "4:1 \"real_client_cert_from\" without \"real_client_cert_header\" | name the field in which the front sends the certificate: real_client_cert_header Client-Cert rfc9440;"
    ),
    (
      listen + clients + header,
      "4:1 \"real_client_cert_header\" without \"real_client_cert_from\" | name the fronts whose word is taken: real_client_cert_from 10.0.0.0/8;"
    ),
    (
      listen + "ssl_verify_client off;\nreal_client_cert_from 10.0.0.1; \(header)",
      "4:1 \"real_client_cert_from\" needs verified client certificates, but \(at) says ssl_verify_client off | ssl_verify_client on, or optional: it is about the clients behind the front, and a front that is listed by its address needs no certificate"
    ),
    (
      listen + "ssl_verify_client optional_no_ca;\nreal_client_cert_from 10.0.0.1; \(header)",
      "4:1 \"real_client_cert_from\" needs verified client certificates, but \(at) says ssl_verify_client optional_no_ca | ssl_verify_client on, or optional: it is about the clients behind the front, and a front that is listed by its address needs no certificate"
    ),
    (
      listen + clients + "real_client_cert_from 10.0.0.1; \(header) ssl_verify_reject handshake;",
      "4:1 \"real_client_cert_from\" beside \"ssl_verify_reject handshake\" | the handshake is the front's, so that a client can be refused by HTTP only: ssl_verify_reject http;"
    ),
    (
      listen + clients + "real_client_cert_from 10.0.0.1; \(header) ssl_ocsp leaf;",
      "4:1 \"real_client_cert_from\" beside \"ssl_ocsp leaf\" | no responder is asked about a certificate in a field: use ssl_crl, and ssl_ocsp off; here"
    ),
    (
      listen + clients + "real_client_cert_from 10.0.0.1; \(header) ssl_client_pin \(pin);",
      "4:1 \"real_client_cert_from\" beside \"ssl_client_pin\" | a pin vouches for a key that the client proves to sallyport; here the front has seen the proof: use ssl_client_certificate, and ssl_client_allow spki=…"
    ),
    (
      listen + clients
        + "real_client_cert_from 10.0.0.1; \(header) ssl_client_purpose any; ssl_client_allow cn=alice;",
      "4:1 \"real_client_cert_from\" beside \"ssl_client_purpose any\" | a certificate in a field must be one for clients: ssl_client_purpose client;"
    ),
    (
      listen + clients + "real_client_cert_from 10.0.0.1; real_client_cert_from ::/0; \(header)",
      "4:55 with \"::/0\", everybody may say which certificate a client has | name the addresses of the fronts alone: whoever else has one of them can be any client"
    ),
    (
      listen + clients + "real_client_cert_from 0.0.0.0/0; \(header)",
      "4:23 with \"0.0.0.0/0\", everybody may say which certificate a client has | name the addresses of the fronts alone: whoever else has one of them can be any client"
    ),
    (
      listen + clients + "real_client_cert_from lb.example; \(header)",
      "4:23 invalid parameter \"lb.example\" in \"real_client_cert_from\" | an IP address, ADDRESS/BITS, unix:, or conditions on the front's certificate, as dns=lb.example"
    ),
    (
      listen + clients + "real_client_cert_from dns=; \(header)",
      "4:23 \"dns=\" has no value in \"real_client_cert_from\" | dns=** is any value"
    ),
    (
      listen + clients + "real_client_cert_from 10.0.0.1; real_client_cert_header Client-Cert base64;",
      "4:69 unknown format \"base64\" in \"real_client_cert_header\" | one of rfc9440, xfcc, pem, der"
    ),
    (
      "listen 80;\n" + clients + "real_client_cert_from cn=lb; \(header)",
      "4:1 no front can show a certificate: the server has no listen with ssl | listen 443 ssl; or name the front by its address"
    ),
    (
      "listen 80;\n" + clients + "real_client_cert_from 10.0.0.1; \(header)",
      "4:23 warning: clients' certificates come without TLS from the front: whoever is on the path can be any client | listen 443 ssl; or see to it that nobody else can send from these addresses"
    ),
    (
      "listen 80;\nssl_verify_client on;\nreal_client_cert_from unix:; \(header)",
      "3:1 no ssl_client_certificate or ssl_trusted_certificate for ssl_verify_client | name the CA that client certificates come from: ssl_client_certificate ca.cer;"
    ),
  ])
  func `what can't be meant has its place`(lines: String, problem: String) {
    #expect(server(lines).problems.contains(problem), "\(server(lines).problems)")
  }

  @Test(arguments: [
    "Host", "cookie", "X_Client", "X.Client", "X-Real-IP", "Client Cert", "Authorization", "x-forwarded-for",
  ])
  func `a field that means something else, or has an ambiguous name, is none for certificates`(name: String) {
    let loaded = server(listen + clients + "real_client_cert_from 10.0.0.1; real_client_cert_header \"\(name)\" pem;")
    #expect(loaded.problems.contains { $0.contains("\"\(name)\" can't be the field of \"real_client_cert_header\"") })
  }

  @Test(arguments: [
    listen + clients
      + "real_client_cert_from 10.0.0.0/8 unix: fd00::/8; real_client_cert_from cn=lb ou=edge; \(header)",
    listen + "ssl_client_certificate ca.cer; ssl_verify_client optional; ssl_client_allow cn=a; client_identity xfcc;\n"
      + "real_client_cert_from 10.0.0.1; \(header)",
  ])
  func `what is meant has no warning`(lines: String) { #expect(server(lines).problems == []) }

  @Test func `a server without TLS may have rules on clients whom a front sends`() {
    let lines =
      "listen 80;\n\(clients)real_client_cert_from 10.0.0.1; \(header) ssl_client_allow cn=a; ssl_crl crl.pem;"
    #expect(server(lines).problems.count == 1)
  }
}
