import Glibc
import Observability
import Language

extension SettingsBuilder {
  /// Builds the `server_name` lines. Without a line, the server has the empty name.
  mutating func serverNames(_ server: Scope) -> [ServerName] {
    let words = server.own("server_name").flatMap(\.arguments)
    if words.isEmpty { return [.exact("")] }
    return words.compactMap { serverName($0) }
  }

  /// Returns nginx's `$server_name`: the first name as written, also that of a `~regex`, or `.x` without its dot.
  func primaryName(_ server: Scope) -> String {
    guard let first = server.own("server_name").first?.arguments.first else { return "" }
    if first.text.hasPrefix("~") { return first.text }
    if first.text.hasPrefix(".") { return String(first.text.dropFirst()) }
    return first.text.lowercased() == "$hostname" ? Self.hostName : first.text.lowercased()
  }

  private mutating func serverName(_ word: Word) -> ServerName? {
    if word.text.hasPrefix("~") {
      return variables.pattern(at: word).map { .regex($0, slots: variables.namedCaptures(of: $0)) }
    }
    let text = word.text.lowercased()
    if text == "$hostname" { return .exact(Self.hostName) }
    let isSuspicious = text.contains("/") || text.contains(":") || text.contains("$")
    if isSuspicious {
      warning(
        word.location, "server name \"\(word.text)\" has suspicious symbols", hint: "a name has no scheme, port or path"
      )
    }
    if text.contains("..") || text.contains(" ") { return invalid(word) }
    if text.hasPrefix("*.") || text.hasPrefix(".") {
      let suffix = text.hasPrefix("*.") ? String(text.dropFirst()) : text
      guard suffix.utf8.count > 1, !suffix.contains("*") else { return invalid(word) }
      return .leadingWildcard(suffix: suffix, matchesBare: text.hasPrefix("."))
    }
    if text.hasSuffix(".*") {
      let prefix = String(text.dropLast())
      guard prefix.utf8.count > 1, !prefix.contains("*") else { return invalid(word) }
      return .trailingWildcard(prefix: prefix)
    }
    return text.contains("*") ? invalid(word) : .exact(text)
  }

  private mutating func invalid(_ word: Word) -> ServerName? {
    error(
      word.location, "invalid server name or wildcard \"\(word.text)\"",
      hint: "\"*\" stands for whole labels at one end: *.example.com, www.example.*; else a ~regex")
    return nil
  }

  private static var hostName: String {
    var buffer = [CChar](repeating: 0, count: 256)
    guard gethostname(&buffer, 255) == 0 else { return "" }
    return String(decoding: buffer.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self).lowercased()
  }
}
