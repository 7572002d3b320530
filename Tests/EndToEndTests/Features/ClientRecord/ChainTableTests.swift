@testable import Features
import Foundation
import TestSupport
import Testing

/// Chains of certificates that an OpenSSL may take or refuse, beside what `check --clients` predicts of them.
///
/// The record is made under `ssl_verify_report_only`, as an operator would make it who changes the release of Debian next.
/// OpenSSL 3.0 and 3.5, those of Debian 12 and 13, refuse the same of them. A run judges the table by either, and the
/// forecast by each version.
@Suite(.staged) struct `Chains under another OpenSSL` {
  private struct Row: Sendable {
    let name: String
    let isRefused: Bool
    /// What the client sends, its own certificate first.
    let sent: String
    /// `NAME ISSUER KEY DIGEST EXTENSIONS` of each certificate that is made for it.
    let made: [String]

    var client: String { sent.split(separator: " ").first.map(String.init) ?? "" }

    private init(_ name: String, _ isRefused: Bool, _ sent: String, _ made: [String]) {
      (self.name, self.isRefused, self.sent, self.made) = (name, isRefused, sent, made)
    }

    static func taken(_ name: String, _ sent: String, _ made: String...) -> Row { Row(name, false, sent, made) }
    static func refused(_ name: String, _ sent: String, _ made: String...) -> Row { Row(name, true, sent, made) }
  }

  private static let ca = "basicConstraints=critical,CA:TRUE|keyUsage=critical,keyCertSign,cRLSign"
  private static let client = "extendedKeyUsage=clientAuth"
  private static let anonymous = "subjectKeyIdentifier=none|authorityKeyIdentifier=none"

  /// The first ones issue those of the rows.
  private static let issuers = [
    "root root ec sha256 \(ca)",
    "middle root ec sha256 \(ca)",
    "root-rsa root-rsa 2048 sha256 \(ca)",
  ]
  /// Those that the server trusts.
  private static let roots = "root root-rsa root-sha1 root-rsa1024 root-v1"

  private static let rows: [Row] = [
    .taken(
      "of the root", "plain",
      "plain root leaf sha256 \(client)"),
    .taken(
      "of an intermediate", "under middle",
      "under middle leaf sha256 \(client)"),
    .refused(
      "an intermediate that is not sent", "under-alone",
      "under-alone middle leaf sha256 \(client)"),
    .taken(
      "the root is sent, too", "whole middle root",
      "whole middle leaf sha256 \(client)"),
    .taken(
      "no authority key identifier", "no-akid",
      "no-akid root leaf sha256 authorityKeyIdentifier=none|\(client)"),
    .taken(
      "no key identifiers", "no-ids",
      "no-ids root leaf sha256 \(anonymous)|\(client)"),
    .taken(
      "an intermediate without key identifiers", "under-bare bare",
      "bare root ec sha256 \(ca)|\(anonymous)",
      "under-bare bare leaf sha256 \(anonymous)|\(client)"),
    .refused(
      "another issuer's key identifier", "wrong-id middle",
      "other root ec sha256 \(ca)",
      "wrong-id other leaf sha256 \(client)"),
    .refused(
      "SHA-1 in the leaf", "sha1",
      "sha1 root leaf sha1 \(client)"),
    .refused(
      "SHA-1 in the intermediate", "under-sha1 middle-sha1",
      "middle-sha1 root ec sha1 \(ca)",
      "under-sha1 middle-sha1 leaf sha256 \(client)"),
    .taken(
      "SHA-1 in the root's own signature", "of-sha1",
      "root-sha1 root-sha1 ec sha1 \(ca)",
      "of-sha1 root-sha1 leaf sha256 \(client)"),
    .refused(
      "MD5 in the leaf", "md5",
      "md5 root-rsa leaf md5 \(client)"),
    .refused(
      "RSA of 1024 bits in the leaf", "rsa1024",
      "rsa1024 root 1024 sha256 \(client)"),
    .taken(
      "RSA of 2048 bits in the leaf", "rsa2048",
      "rsa2048 root 2048 sha256 \(client)"),
    .refused(
      "RSA of 1024 bits in the intermediate", "under-rsa1024 middle-rsa1024",
      "middle-rsa1024 root 1024 sha256 \(ca)",
      "under-rsa1024 middle-rsa1024 leaf sha256 \(client)"),
    .refused(
      "RSA of 1024 bits in the root", "of-rsa1024",
      "root-rsa1024 root-rsa1024 1024 sha256 \(ca)",
      "of-rsa1024 root-rsa1024 leaf sha256 \(client)"),
    .taken(
      "Ed25519", "ed25519",
      "ed25519 root ed25519 sha256 \(client)"),
    .taken(
      "names that the CA may certify", "within named",
      "named root ec sha256 \(ca)|nameConstraints=critical,permitted;DNS:in.test",
      "within named leaf sha256 \(client)|subjectAltName=DNS:a.in.test"),
    .refused(
      "names that the CA may not certify", "without named",
      "without named leaf sha256 \(client)|subjectAltName=DNS:out.test"),
    .refused(
      "names that the CA must not certify", "excluded excluding",
      "excluding root ec sha256 \(ca)|nameConstraints=critical,excluded;DNS:out.test",
      "excluded excluding leaf sha256 \(client)|subjectAltName=DNS:a.out.test"),
    .refused(
      "an intermediate without basicConstraints", "under-no-bc no-bc",
      "no-bc root ec sha256 keyUsage=critical,keyCertSign",
      "under-no-bc no-bc leaf sha256 \(client)"),
    .taken(
      "an intermediate whose basicConstraints is not critical", "under-lax lax",
      "lax root ec sha256 basicConstraints=CA:TRUE",
      "under-lax lax leaf sha256 \(client)"),
    .taken(
      "a root of version 1", "of-v1",
      "root-v1 root-v1 ec sha256 v1",
      "of-v1 root-v1 leaf sha256 authorityKeyIdentifier=none|\(client)"),
    .refused(
      "an intermediate of version 1", "under-v1 v1",
      "v1 root ec sha256 v1",
      "under-v1 v1 leaf sha256 authorityKeyIdentifier=none|\(client)"),
    .refused(
      "a longer path than a CA allows", "deep lower short",
      "short root ec sha256 basicConstraints=critical,CA:TRUE,pathlen:0|keyUsage=critical,keyCertSign,cRLSign",
      "lower short ec sha256 \(ca)",
      "deep lower leaf sha256 \(client)"),
    .refused(
      "an intermediate that may not sign certificates", "under-no-sign no-sign",
      "no-sign root ec sha256 basicConstraints=critical,CA:TRUE|keyUsage=critical,cRLSign",
      "under-no-sign no-sign leaf sha256 \(client)"),
    .refused(
      "an intermediate for servers only", "under-server for-servers",
      "for-servers root ec sha256 \(ca)|extendedKeyUsage=serverAuth",
      "under-server for-servers leaf sha256 \(client)"),
    .refused(
      "a certificate for servers only", "server-only",
      "server-only root leaf sha256 extendedKeyUsage=serverAuth"),
    .taken(
      "no extended key usage", "any-use",
      "any-use root leaf sha256 basicConstraints=CA:FALSE"),
    .refused(
      "a key that may not sign", "no-signature",
      "no-signature root leaf sha256 \(client)|keyUsage=critical,keyEncipherment"),
    .refused(
      "an unknown critical extension", "critical",
      "critical root leaf sha256 \(client)|1.2.3.4=critical,ASN1:NULL"),
    .taken(
      "an unknown extension", "unknown",
      "unknown root leaf sha256 \(client)|1.2.3.4=ASN1:NULL"),
    .taken(
      "a leaf that is a CA", "ca-leaf",
      "ca-leaf root leaf sha256 basicConstraints=critical,CA:TRUE|keyUsage=critical,digitalSignature,keyCertSign,cRLSign|\(client)"
    ),
    .refused(
      "a leaf that nobody has issued", "alone",
      "alone alone leaf sha256 \(client)"),
    .taken(
      "RSA with PSS", "pss",
      "pss root-rsa leaf pss \(client)"),
  ]

  /// Makes NAME.pem and NAME.key of each certificate, NAME.chain of what each client sends, and roots.pem.
  private static let script = #"""
    set -e
    serial=1000
    key() { openssl genpkey -algorithm "$@" 2>/dev/null; }
    made() {
      # Leaves share a key.
      case $3 in
        leaf) [ -f leaf.key ] || key EC -pkeyopt ec_paramgen_curve:P-256 -out leaf.key; cp leaf.key $1.key ;;
        ec) key EC -pkeyopt ec_paramgen_curve:P-256 -out $1.key ;;
        ed25519) key ed25519 -out $1.key ;;
        *) key RSA -pkeyopt rsa_keygen_bits:$3 -out $1.key ;;
      esac
      # Of two lines of one name, the first counts.
      printf '%s\n' "$5|subjectKeyIdentifier=hash|authorityKeyIdentifier=keyid" | tr '|' '\n' | awk -F= '!seen[$1]++' > $1.ext
      with="-extfile $1.ext"
      if [ "$5" = v1 ]; then with=; fi
      from="-key $1.key"
      if [ $1 != $2 ]; then
        openssl pkey -in $1.key -pubout -out $1.pub
        from="-force_pubkey $1.pub -CA $2.pem -CAkey $2.key"
      fi
      digest=-$4
      if [ $4 = pss ]; then digest="-sha256 -sigopt rsa_padding_mode:pss"; fi
      openssl x509 -new $from -subj /CN=$1 -set_serial $((serial += 1)) -days 90 $digest $with -out $1.pem
    }
    """#

  private func mint(_ scene: Scene) async throws {
    var lines = [Self.script]
    for line in Self.issuers + Self.rows.flatMap(\.made) {
      let words = line.split(separator: " ", maxSplits: 4).map { "'\($0)'" }
      lines.append("made \(words.joined(separator: " "))")
    }
    for (names, file) in Self.rows.map({ ($0.sent, "\($0.client).chain") }) + [(Self.roots, "roots.pem")] {
      let files = names.split(separator: " ").map { "\($0).pem" }.joined(separator: " ")
      lines.append("cat \(files) > \(file)")
    }
    try await scene.succeed("sh", scene.write("mint.sh", text: lines.joined(separator: "\n") + "\n"))
  }

  /// The clients of the rows that don't get what they ask for.
  private func refused(_ scene: Scene, _ port: UInt16) async throws -> Set<String> {
    var found: Set<String> = []
    for client in Self.rows.map(\.client) {
      let result = try await scene.run(
        "openssl",
        [
          "s_client", "-quiet", "-connect", "127.0.0.1:\(port)", "-servername", "localhost", "-cert", "\(client).pem",
          "-key", "\(client).key", "-cert_chain", "\(client).chain", "-cipher", "DEFAULT@SECLEVEL=0",
        ], input: Array("GET / HTTP/1.0\r\nHost: localhost\r\n\r\n".utf8))
      if !result.text.hasPrefix("HTTP/1.1 200") { found.insert(client) }
    }
    return found
  }

  @Test func `are refused as the forecast says, and as the table of the release says`() async throws {
    let scene = try Scene.ofTest(), port = try scene.port()
    _ = try Cast(scene)
    try await mint(scene)
    func text(_ lines: String) -> String {
      configuration(
        """
        client_record who.clients;
        server {
          listen 127.0.0.1:\(port) ssl; server_name localhost; \(Cast.tls.replacing("ca.pem", with: "roots.pem"))
          ssl_verify_depth 4; \(lines)
          location / { return 200 in; }
        }
        """)
    }
    let daemon = try await Sallyport.start(scene, text("ssl_verify_report_only on;"))
    #expect(try await refused(scene, port) == [])
    daemon.signal(SIGHUP)
    try await until("the record") {
      (try? RecordedClients(reading: scene.bytes("who.clients")).visits.count) == Self.rows.count
    }

    let strict = try scene.write("strict.conf", text: Sallyport.withUser(text("")))
    let forecast = try await scene.sallyport("check", strict, "--clients", scene.path("who.clients"), "--json")
    let predicted = try JSONDecoder().decode(Forecast.self, from: Data(forecast.output))
    #expect(predicted.clients == Self.rows.count)
    try daemon.rewrite(text(""))
    daemon.signal(SIGHUP)
    _ = try await daemon.logged("generation 2")
    let observed = try await refused(scene, port)
    #expect(Set(predicted.refused.map { $0.subject.replacing("CN=", with: "") }) == observed)

    let version = try await scene.succeed("openssl", "version", "-v")
    guard ["OpenSSL 3.0.", "OpenSSL 3.5."].contains(where: { version.hasPrefix($0) }) else { return }
    for row in Self.rows where try await !isOtherwise(row, scene) {
      #expect(observed.contains(row.client) == row.isRefused, "\(row.name)")
    }
  }

  /// Whether this machine's command made another version of a certificate than the row names.
  private func isOtherwise(_ row: Row, _ scene: Scene) async throws -> Bool {
    guard let old = row.made.first(where: { $0.hasSuffix(" v1") })?.split(separator: " ").first else { return false }
    return try await !scene.succeed("openssl", "x509", "-in", "\(old).pem", "-noout", "-text").contains("Version: 1 ")
  }

  private struct Forecast: Decodable {
    struct Client: Decodable { var subject: String }
    var clients: Int
    var refused: [Client]
  }
}
