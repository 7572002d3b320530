/// Whom a subject names by its common name (CN, RFC 5280 appendix A.1).
///
/// A subject may hold several CNs, and programs differ in which one they take: the first, the last or any. So a subject
/// names somebody only where there is exactly one CN and it is plain text. Two CNs name nobody, equal ones neither: no
/// authority has a reason to write them.
package enum CommonNameReading: Sendable, Hashable {
  /// The subject has no CN.
  case absent
  /// The subject has one CN: UTF-8 without a control character.
  case one([UInt8])
  /// The subject has several CNs, or one with a control character (NUL too), or one that is no text. Nobody may be let in
  /// by it. The values are for revocation by name, which takes whatever carries the name.
  case ambiguous([[UInt8]])

  /// `values`: in the order of the subject.
  package init(_ values: [[UInt8]]) {
    switch values.count {
    case 0: self = .absent
    case 1 where !values[0].contains { $0 < 0x20 || $0 == 0x7F }: self = .one(values[0])
    default: self = .ambiguous(values)
    }
  }

  /// The name, where there is exactly one.
  package var sole: [UInt8]? { if case .one(let name) = self { name } else { nil } }

  /// Every value, for those who must miss no certificate that carries a name.
  package var all: [[UInt8]] {
    switch self {
    case .absent: []
    case .one(let name): [name]
    case .ambiguous(let names): names
    }
  }
}
