import Bytes
package import Crypto
import Glibc
import Observability

/// Describes the objects of a file in plain words: `sallyport ca inspect`. It verifies no chain and never prints a
/// private key.
package struct Inspection: Sendable {
  package let pages: [InspectionPage]

  package init(_ objects: [InspectedObject], at now: Int64 = Int64(time(nil))) {
    pages = objects.enumerated().map { place, object in
      let number = objects.count > 1 ? "\(place + 1) of \(objects.count): " : ""
      return Self.page(of: object, number, now)
    }
  }

  /// The most objects that the text form prints; JSON has all.
  private static let pageLimit = 500

  package var text: String {
    let hidden = pages.count - Self.pageLimit
    return
      (pages.prefix(Self.pageLimit).map(\.text) + (hidden > 0 ? ["… and \(hidden) more; --json has all"] : []))
      .joined(separator: "\n\n")
  }

  package var json: String {
    var json = JSONText()
    json.array(pages) { $0.write(&$1) }
    return json.text
  }

  private static func page(of object: InspectedObject, _ number: String, _ now: Int64) -> InspectionPage {
    switch object {
    case .certificate(let certificate): return InspectionPage(certificate, number, at: now)
    case .request(let request): return InspectionPage(request, number)
    case .list(let list): return InspectionPage(list, number, at: now)
    case .publicKey(let key):
      var page = InspectionPage(kind: "public_key", title: "\(number)a public key")
      page.say(key.kind, pin: key.sha256)
      return page
    case .privateKey(let key):
      var page = InspectionPage(kind: "private_key", title: "\(number)a private key")
      page.say(key.kind, pin: key.spkiSHA256)
      return page
    case .sealedKey:
      var page = InspectionPage(kind: "private_key", title: "\(number)a private key, encrypted")
      page.warn("no given pass phrase opens it: --password-file FILE")
      return page
    case .other(let label):
      var page = InspectionPage(kind: "other", title: "\(number)a PEM block that sallyport does not read")
      page.say("label", "label", .text(label))
      return page
    }
  }
}

extension InspectionPage {
  /// Says a key's kind and its pin.
  mutating func say(_ key: KeyKind, pin digest: [UInt8]) {
    say("key", "key", .text("\(key)"))
    if !digest.isEmpty { say("pin", "pin", .text(Pin.spelling(publicKeyDigest: digest)), note: "for proxy_ssl_pin") }
    warn("the key is weak: attackers can or soon could compute the private key", when: key.isWeak)
    if case .unreadable(let algorithm) = key {
      warn("the key can't be read\(algorithm.map { ": \($0.absence)" } ?? "")")
    }
  }

  mutating func say(_ algorithm: SigningAlgorithm, isJudged: Bool = true) {
    say("signed with", "signature_algorithm", .text("\(algorithm)"))
    warn("the signature's hash is weak: attackers can compute collisions", when: isJudged && algorithm.isWeak)
  }

  /// How far away a time is, in words: "in 364 days", "3 days ago".
  static func distance(_ instant: Int64, from now: Int64) -> String {
    let (left, isFar) = instant.subtractingReportingOverflow(now)
    guard !isFar else { return instant < now ? "long ago" : "far in the future" }
    let length = left.magnitude
    let (count, unit): (UInt64, String) =
      switch length {
      case 172_800...: (length / 86_400, "days")
      case 7200...: (length / 3600, "hours")
      case 120...: (length / 60, "minutes")
      default: (length, "seconds")
      }
    return left > 0 ? "in \(count) \(unit)" : "\(count) \(unit) ago"
  }
}
