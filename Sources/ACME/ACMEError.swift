package import JSON

/// Why a certificate could not be had.
package struct ACMEError: Error, Sendable, Hashable, CustomStringConvertible {
  /// What is known of another attempt.
  package enum Cure: Sendable, Hashable {
    /// Another attempt may succeed by itself.
    case later
    /// Only a change of the configuration, of DNS or of an account helps.
    case change
  }

  /// A sentence that names the culprit.
  package let message: String
  package let hint: String?
  package let cure: Cure
  /// Seconds that the server asked to wait (Retry-After), as it said them.
  package let retryAfter: Int64?

  package init(_ message: String, hint: String? = nil, cure: Cure = .later, retryAfter: Int64? = nil) {
    self.message = message
    self.hint = hint
    self.cure = cure
    self.retryAfter = retryAfter
  }

  package var description: String { hint.map { "\(message); \($0)" } ?? message }
}

/// What a server says of a request that it refuses (RFC 8555 §6.7, RFC 9457).
package struct ACMEProblem: Sendable, Hashable, CustomStringConvertible {
  /// The name behind `urn:ietf:params:acme:error:`, such as `badNonce`; empty for another type.
  package let type: String
  package let detail: String
  /// What it says of single identifiers.
  package let parts: [String]

  private static let prefix = "urn:ietf:params:acme:error:"
  private static let longestDetail = 400

  package init(_ value: JSONValue?) {
    let full = value?["type"]?.text ?? ""
    type = full.hasPrefix(Self.prefix) ? Self.printable(String(full.dropFirst(Self.prefix.count))) : ""
    detail = Self.printable(value?["detail"]?.text ?? "")
    parts = (value?["subproblems"]?.list ?? []).prefix(4).map { part in
      let name = part["identifier"]?["value"]?.text.map { "\(Self.printable($0)): " } ?? ""
      return name + Self.printable(part["detail"]?.text ?? part["type"]?.text ?? "")
    }
  }

  package var description: String {
    let first = [type, detail].filter { !$0.isEmpty }.joined(separator: ": ")
    return ([first.isEmpty ? "no reason given" : first] + parts).joined(separator: "; ")
  }

  /// A server's text in a line of the log: bounded, without control characters.
  static func printable(_ text: String) -> String {
    var kept = String.UnicodeScalarView()
    kept.append(
      contentsOf: text.unicodeScalars.prefix(longestDetail).map { scalar in
        scalar.properties.generalCategory == .control || scalar.properties.generalCategory == .format ? "?" : scalar
      })
    return String(kept)
  }
}
