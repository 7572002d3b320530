import ConfigurationSupport
import Observability
import Testing

@testable import Configuration
@testable import Language

@Suite struct `A template that nobody has rendered` {
  private func hints(_ text: String) -> [String] {
    LoadedText(text).diagnostics.filter { $0.severity != .notice }.map { $0.hint ?? "" }
  }

  @Test(arguments: [
    ("listen ${NGINX_PORT}; return 204;", "$NGINX_PORT"),
    ("listen 80; server_name ${HOST_NAME}; return 204;", "$HOST_NAME"),
    ("listen 80; location / { proxy_pass http://${BACKEND}:80; }", "$BACKEND"),
    ("listen 80; location / { return 200 $MESSAGE; }", "$MESSAGE"),
    ("listen 80; client_max_body_size ${MAX_SIZE}; return 204;", "$MAX_SIZE"),
  ])
  func `is what a message about a word in capitals suggests`(lines: String, name: String) {
    let hints = hints("events {} http { server { \(lines) } }")
    #expect(
      hints.contains { $0.hasPrefix("is the file a template that was not rendered? \(name) would come from") },
      "\(hints)")
  }

  @Test func `is not what a message about another word suggests`() {
    #expect(!hints("events {} http { server { listen 80; return 200 $nosuch; } }").joined().contains("envsubst"))
    #expect(hints("events {} http { server { listen 80; server_name a; return 200 $HOST; } }") == [])
  }

  @Test(
    arguments: [
      ("${A_B}", "$A_B"), ("http://$API:80", "$API"), ("$host", nil), ("$Host", nil), ("$A", nil), ("$1", nil),
      ("a$", nil),
      ("${}", nil), ("$HOSTname", nil),
    ] as [(String, String?)])
  func `has names in capitals`(text: String, name: String?) { #expect(UnrenderedTemplate.name(in: text) == name) }
}
