import Bytes
import HTTP
import Patterns

/// `valid_referers` of a location in one worker (nginx's referer module).
final class LiveReferers {
  private let settings: RefererSettings
  private let names: NameTable<[UInt8]?>
  private static let longestName = 256
  static let field = Array("referer".utf8)

  init(_ settings: RefererSettings) {
    self.settings = settings
    names = NameTable(exact: settings.exact, suffixes: settings.suffixes, prefixes: settings.prefixes)
  }

  /// Whether the request's Referer is valid. Where a regular expression reaches its limit, it is not.
  func admit(_ referer: [UInt8]?, scratch: RegularExpression.Scratch) -> Bool {
    guard let referer else { return settings.allowsNone }
    // nginx's shortest referer, "http://i.ru".
    guard referer.count >= 11, let scheme = schemeLength(referer) else { return settings.allowsBlocked }
    let rest = referer[scheme...]
    let host = rest.prefix { $0 != 0x2F && $0 != 0x3A }
    guard host.count <= Self.longestName else { return false }
    let name = host.map(ASCII.lower)
    if let path = names.find(name) {
      return path.map { rest[host.endIndex...].drop { $0 != 0x2F }.starts(with: $0) } ?? true
    }
    return settings.namePatterns.contains { matches($0, name, scratch) }
      || settings.patterns.contains { matches($0, Array(rest), scratch) }
  }

  private func matches(_ pattern: RegularExpression, _ text: [UInt8], _ scratch: RegularExpression.Scratch) -> Bool {
    var captures = Captures()
    return text.withUnsafeBytes { pattern.match($0, scratch: scratch, into: &captures) } == .match
  }

  private func schemeLength(_ referer: [UInt8]) -> Int? {
    ["http://", "https://"].map { Array($0.utf8) }
      .first { referer.count >= $0.count && referer.prefix($0.count).map(ASCII.lower) == $0 }?.count
  }
}
