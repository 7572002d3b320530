/// The name in a subject's common name (CN, RFC 5280 appendix A.1).
///
/// A subject may hold several CNs, and programs differ in which one they use: the first, the last or any. So a subject
/// has a name only if it has exactly one CN of plain text. Several CNs give no name, even equal ones: no authority has
/// a reason to write them.
package enum CommonNameReading: Sendable, Hashable {
  /// The subject has no CN.
  case absent
  /// The subject has one CN: UTF-8 without a control character.
  case one([UInt8])
  /// The subject has several CNs, or one with a control character (even NUL), or one that is not text. No rule may let
  /// a client in by it. The values serve revocation by name, which covers every certificate that carries the name.
  case ambiguous([[UInt8]])

  /// `values`: in the order of the subject.
  package init(_ values: [[UInt8]]) {
    switch values.count {
    case 0: self = .absent
    case 1 where !values[0].contains { $0 < 0x20 || $0 == 0x7F }: self = .one(values[0])
    default: self = .ambiguous(values)
    }
  }

  /// The name, if there is exactly one.
  package var sole: [UInt8]? { if case .one(let name) = self { name } else { nil } }

  /// Every value, for callers that must not miss a certificate that carries a name.
  package var all: [[UInt8]] {
    switch self {
    case .absent: []
    case .one(let name): [name]
    case .ambiguous(let names): names
    }
  }
}
