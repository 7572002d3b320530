import Traffic
import Forward

/// What a text can begin with, as far as constants of the configuration say it: of each text no more than tells the
/// scheme of a URL.
struct TextStarts: Equatable {
  /// In lower case. A text that goes on ends behind `://`, or after `limit` bytes without one.
  private(set) var texts: Set<String>
  /// Whether other texts are possible, too, because a request decides.
  private(set) var isOpen = false

  /// Longer than each scheme with its `://`.
  private static let limit = 9

  static let none = TextStarts(texts: [])
  static let unknown = TextStarts(texts: [], isOpen: true)

  private init(texts: Set<String>, isOpen: Bool = false) {
    self.texts = texts
    self.isOpen = isOpen
  }

  init(_ text: some Sequence<UInt8>) {
    texts = [Self.start(of: String(decoding: Array(text.prefix(Self.limit)), as: UTF8.self).lowercased())]
  }

  mutating func formUnion(_ other: TextStarts) {
    texts.formUnion(other.texts)
    isOpen = isOpen || other.isOpen
  }

  /// Appends other text to each that doesn't tell its scheme yet.
  mutating func append(_ other: TextStarts) {
    var made: Set<String> = []
    for text in texts {
      if Self.tellsScheme(text) {
        made.insert(text)
      } else {
        isOpen = isOpen || other.isOpen
        for next in other.texts { made.insert(Self.start(of: text + next)) }
      }
    }
    texts = made
  }

  /// Whether each text tells its scheme, so that what follows doesn't count.
  var isSettled: Bool { texts.allSatisfy(Self.tellsScheme) }

  private static func tellsScheme(_ text: String) -> Bool { text.contains("://") || text.utf8.count >= limit }

  private static func start(of text: String) -> String {
    text.firstRange(of: "://").map { String(text[..<$0.upperBound]) } ?? String(text.prefix(limit))
  }
}
