@testable import Features
import Foundation
import TestSupport
import Testing

/// Chains of certificates that an OpenSSL may take or refuse, beside what `check --clients` predicts of them.
///
/// The record is made under `ssl_verify_report_only`, as an operator would make it who changes the release of Debian next.
/// Each column of the table is that of one release; a run judges the column of its own OpenSSL, and the forecast anywhere.
@Suite(.staged) struct `Chains under another OpenSSL` {
  private struct Row: Sendable {
    let name: String
    /// Whether OpenSSL 3.0 and 3.5, those of Debian 12 and 13, refuse it.
    let refused: (bookworm: Bool, trixie: Bool)
    /// What the client sends, its own certificate first.
    let sent: String
    /// `NAME ISSUER KEY DIGEST EXTENSIONS` of each certificate that is made for it.
    let made: [String]

    var client: String { sent.split(separator: " ").first.map(String.init) ?? "" }

    init(_ name: String, refused: (bookworm: Bool, trixie: Bool), _ sent: String, _ made: String...) {
      (self.name, self.refused, self.sent, self.made) = (name, refused, sent, made)
    }
  }

  private static let taken = (bookworm: false, trixie: false), refused = (bookworm: true, trixie: true)
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

  private static let rows = [
    Row(
      "of the root", refused: taken, "plain",
      "plain root leaf sha256 \(client)"),
    Row(
      "of an intermediate", refused: taken, "under middle",
      "under middle leaf sha256 \(client)"),
    Row(
      "an intermediate that is not sent", refused: refused, "under-alone",
      "under-alone middle leaf sha256 \(client)"),
    Row(
      "the root is sent, too", refused: taken, "whole middle root",
      "whole middle leaf sha256 \(client)"),
    Row(
      "no authority key identifier", refused: taken, "no-akid",
      "no-akid root leaf sha256 authorityKeyIdentifier=none|\(client)"),
    Row(
      "no key identifiers", refused: taken, "no-ids",
      "no-ids root leaf sha256 \(anonymous)|\(client)"),
    Row(
      "an intermediate without key identifiers", refused: taken, "under-bare bare",
      "bare root ec sha256 \(ca)|\(anonymous)",
      "under-bare bare leaf sha256 \(anonymous)|\(client)"),
    Row(
      "another issuer's key identifier", refused: refused, "wrong-id middle",
      "other root ec sha256 \(ca)",
      "wrong-id other leaf sha256 \(client)"),
    Row(
      "SHA-1 in the leaf", refused: refused, "sha1",
      "sha1 root leaf sha1 \(client)"),
    Row(
      "SHA-1 in the intermediate", refused: refused, "under-sha1 middle-sha1",
      "middle-sha1 root ec sha1 \(ca)",
      "under-sha1 middle-sha1 leaf sha256 \(client)"),
    Row(
      "SHA-1 in the root's own signature", refused: taken, "of-sha1",
      "root-sha1 root-sha1 ec sha1 \(ca)",
      "of-sha1 root-sha1 leaf sha256 \(client)"),
    Row(
      "MD5 in the leaf", refused: refused, "md5",
      "md5 root-rsa leaf md5 \(client)"),
    Row(
      "RSA of 1024 bits in the leaf", refused: refused, "rsa1024",
      "rsa1024 root 1024 sha256 \(client)"),
    Row(
      "RSA of 2048 bits in the leaf", refused: taken, "rsa2048",
      "rsa2048 root 2048 sha256 \(client)"),
    Row(
      "RSA of 1024 bits in the intermediate", refused: refused, "under-rsa1024 middle-rsa1024",
      "middle-rsa1024 root 1024 sha256 \(ca)",
      "under-rsa1024 middle-rsa1024 leaf sha256 \(client)"),
    Row(
      "RSA of 1024 bits in the root", refused: refused, "of-rsa1024",
      "root-rsa1024 root-rsa1024 1024 sha256 \(ca)",
      "of-rsa1024 root-rsa1024 leaf sha256 \(client)"),
    Row(
      "Ed25519", refused: taken, "ed25519",
      "ed25519 root ed25519 sha256 \(client)"),
    Row(
      "names that the CA may certify", refused: taken, "within named",
      "named root ec sha256 \(ca)|nameConstraints=critical,permitted;DNS:in.test",
      "within named leaf sha256 \(client)|subjectAltName=DNS:a.in.test"),
    Row(
      "names that the CA may not certify", refused: refused, "without named",
      "without named leaf sha256 \(client)|subjectAltName=DNS:out.test"),
    Row(
      "names that the CA must not certify", refused: refused, "excluded excluding",
      "excluding root ec sha256 \(ca)|nameConstraints=critical,excluded;DNS:out.test",
      "excluded excluding leaf sha256 \(client)|subjectAltName=DNS:a.out.test"),
    Row(
      "an intermediate without basicConstraints", refused: refused, "under-no-bc no-bc",
      "no-bc root ec sha256 keyUsage=critical,keyCertSign",
      "under-no-bc no-bc leaf sha256 \(client)"),
    Row(
      "an intermediate whose basicConstraints is not critical", refused: taken, "under-lax lax",
      "lax root ec sha256 basicConstraints=CA:TRUE",
      "under-lax lax leaf sha256 \(client)"),
    Row(
      "a root of version 1", refused: taken, "of-v1",
      "root-v1 root-v1 ec sha256 v1",
      "of-v1 root-v1 leaf sha256 authorityKeyIdentifier=none|\(client)"),
    Row(
      "an intermediate of version 1", refused: refused, "under-v1 v1",
      "v1 root ec sha256 v1",
      "under-v1 v1 leaf sha256 authorityKeyIdentifier=none|\(client)"),
    Row(
      "a longer path than a CA allows", refused: refused, "deep lower short",
      "short root ec sha256 basicConstraints=critical,CA:TRUE,pathlen:0|keyUsage=critical,keyCertSign,cRLSign",
      "lower short ec sha256 \(ca)",
      "deep lower leaf sha256 \(client)"),
    Row(
      "an intermediate that may not sign certificates", refused: refused, "under-no-sign no-sign",
      "no-sign root ec sha256 basicConstraints=critical,CA:TRUE|keyUsage=critical,cRLSign",
      "under-no-sign no-sign leaf sha256 \(client)"),
    Row(
      "an intermediate for servers only", refused: refused, "under-server for-servers",
      "for-servers root ec sha256 \(ca)|extendedKeyUsage=serverAuth",
      "under-server for-servers leaf sha256 \(client)"),
    Row(
      "a certificate for servers only", refused: refused, "server-only",
      "server-only root leaf sha256 extendedKeyUsage=serverAuth"),
    Row(
      "no extended key usage", refused: taken, "any-use",
      "any-use root leaf sha256 basicConstraints=CA:FALSE"),
    Row(
      "a key that may not sign", refused: refused, "no-signature",
      "no-signature root leaf sha256 \(client)|keyUsage=critical,keyEncipherment"),
    Row(
      "an unknown critical extension", refused: refused, "critical",
      "critical root leaf sha256 \(client)|1.2.3.4=critical,ASN1:NULL"),
    Row(
      "an unknown extension", refused: taken, "unknown",
      "unknown root leaf sha256 \(client)|1.2.3.4=ASN1:NULL"),
    Row(
      "a leaf that is a CA", refused: taken, "ca-leaf",
      "ca-leaf root leaf sha256 basicConstraints=critical,CA:TRUE|keyUsage=critical,digitalSignature,keyCertSign,cRLSign|\(client)"
    ),
    Row(
      "a leaf that nobody has issued", refused: refused, "alone",
      "alone alone leaf sha256 \(client)"),
    Row(
      "RSA with PSS", refused: taken, "pss",
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
    for row in Self.rows where try await !isOtherwise(row, scene) {
      let isRefused = observed.contains(row.client)
      if version.hasPrefix("OpenSSL 3.0.") { #expect(isRefused == row.refused.bookworm, "\(row.name)") }
      if version.hasPrefix("OpenSSL 3.5.") { #expect(isRefused == row.refused.trixie, "\(row.name)") }
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
