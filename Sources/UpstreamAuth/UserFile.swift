package import Bytes
package import Crypto
import Glibc
package import Identity
package import Patterns

/// The user name and password for an upstream: one line of a user file. Immutable, and shared by all workers. State
/// that belongs to a user is keyed by this object.
package final class UpstreamUser: Sendable, CustomStringConvertible, CustomReflectable {
  /// UTF-8, without control characters and colons.
  package let name: [UInt8]
  package let password: SecretBytes
  /// The file and line.
  package let place: String

  package init(name: [UInt8], password: SecretBytes, place: String = "") {
    self.name = name
    self.password = password
    self.place = place
  }

  /// The two parts of NTLM's `DOMAIN\USER`.
  var domainAndName: (domain: String, name: String) {
    let text = String(decoding: name, as: UTF8.self)
    guard let slash = text.firstIndex(of: "\\") else { return ("", text) }
    return (String(text[..<slash]), String(text[text.index(after: slash)...]))
  }

  package var description: String { "the user at \(place)" }
  package var customMirror: Mirror { Mirror(self, children: [:]) }
}

/// `proxy_auth_user_file`: maps clients to users by lines `SELECTOR USER:PASSWORD`; the first match wins. No message
/// shows a line's content, because a malformed line may hold a password anywhere.
package final class UserFile: Sendable {
  package enum Choice: Sendable {
    case user(UpstreamUser)
    case nobody
    /// A line can't be evaluated, so the first match is unknown.
    case undecided(String)
  }

  private let lines: [(selector: ClientSelector, user: UpstreamUser)]
  package var count: Int { lines.count }

  private init(_ lines: [(selector: ClientSelector, user: UpstreamUser)]) { self.lines = lines }

  package func choose(_ client: ClientSelector.Client, scratch: RegularExpression.Scratch) -> Choice {
    for line in lines {
      switch line.selector.match(client, scratch: scratch) {
      case .match: return .user(line.user)
      case .noMatch: break
      case .undecided(let reason): return .undecided("\(reason), at \(line.user.place)")
      }
    }
    return .nobody
  }

  /// Reads the file. Blocks, so never on an event loop.
  package static func load(_ reference: MaterialReference) throws(MaterialError) -> UserFile {
    let contents = try reference.read(expecting: .users)
    return try contents.withUnsafeBytes { (bytes) throws(MaterialError) in try UserFile(parsing: bytes, reference) }
  }

  package convenience init(parsing bytes: UnsafeRawBufferPointer, _ reference: MaterialReference) throws(MaterialError)
  {
    var lines: [(selector: ClientSelector, user: UpstreamUser)] = []
    var number = 0
    for slice in bytes.split(separator: 0x0A, omittingEmptySubsequences: false) {
      number += 1
      let line = UnsafeRawBufferPointer(rebasing: slice.last == 0x0D ? slice.dropLast() : slice)
      if line.isEmpty || line[0] == 0x23 { continue }
      do throws(LineError) {
        lines.append(try Self.parse(line, place: "\(reference):\(number)", number))
      } catch {
        throw MaterialError(
          culprit: reference.description, location: reference.location,
          message: "\"\(reference)\" line \(number): \(error.reason)", hint: error.hint)
      }
    }
    guard !lines.isEmpty else {
      throw MaterialError(
        culprit: reference.description, location: reference.location,
        message: "\"\(reference)\": names no user; expected lines SELECTOR USER:PASSWORD", hint: "* USER:PASSWORD")
    }
    self.init(lines)
  }

  private struct LineError: Error {
    var reason: String
    var hint: String? = "SELECTOR USER:PASSWORD, as cn=alice al:PASSWORD, or * USER:PASSWORD for everybody"
  }

  /// Parses a line. The first space outside double quotes ends the selector, and the first colon after it ends the user
  /// name.
  private static func parse(
    _ line: UnsafeRawBufferPointer, place: String, _ number: Int
  ) throws(LineError) -> (selector: ClientSelector, user: UpstreamUser) {
    var selector: [UInt8] = []
    var at = 0
    var isQuoted = false
    while at < line.count, isQuoted || line[at] != 0x20 {
      if line[at] == 0x22 { isQuoted.toggle() } else { selector.append(line[at]) }
      at += 1
    }
    guard !isQuoted else { throw LineError(reason: "a double quote of its SELECTOR is not closed") }
    while at < line.count, line[at] == 0x20 { at += 1 }
    let rest = UnsafeRawBufferPointer(rebasing: line[at...])
    guard !rest.isEmpty else { throw LineError(reason: "no USER:PASSWORD after its SELECTOR") }
    guard let colon = rest.firstIndex(of: 0x3A), colon > 0 else {
      throw LineError(reason: "no \"USER:\" after its SELECTOR")
    }
    guard !line.contains(where: { $0 < 0x20 || $0 == 0x7F }) else {
      throw LineError(
        reason: "a control character, which no scheme can carry", hint: "separate SELECTOR and USER by a space")
    }
    guard isUTF8(rest) else { throw LineError(reason: "user or password is not UTF-8", hint: "save the file as UTF-8") }
    guard rest.count <= 1024 else { throw LineError(reason: "user and password are longer than 1024 bytes") }
    guard let parsed = ClientSelector(parsing: String(decoding: selector, as: UTF8.self)) else {
      throw LineError(
        reason: "its SELECTOR is malformed",
        hint: "what ssl_client_allow takes, one KEY=PATTERN as cn=alice, or *; blanks in it need double quotes")
    }
    let user = UpstreamUser(
      name: Array(rest[..<colon]),
      password: SecretBytes(copying: UnsafeRawBufferPointer(rebasing: rest[(colon + 1)...])),
      place: place)
    return (parsed, user)
  }

  private static func isUTF8(_ bytes: UnsafeRawBufferPointer) -> Bool {
    // The copy may contain the password, so it is wiped after the check.
    var copy = Array(bytes)
    defer { copy.wipe() }
    return String(validating: copy, as: UTF8.self) != nil
  }
}
