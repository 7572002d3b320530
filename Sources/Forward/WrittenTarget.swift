package import Traffic

/// A URL with variables, divided where the configuration writes its path: a variable before that is taken for a part of
/// the authority, though its value may have a path of its own.
package struct WrittenTarget {
  /// The scheme and the authority.
  package private(set) var base: [Template.Part] = []
  /// The part of `base` behind the scheme.
  package private(set) var authority: [Template.Part] = []
  /// What follows, without the query; nil: no path is written, so that the request's own goes on.
  package private(set) var path: Template?

  package init(_ parts: [Template.Part]) {
    let mark = Array("://".utf8)
    var awaitsScheme = parts.prefix(2).contains { part in
      if case .literal(let bytes) = part { bytes.firstRange(of: mark) != nil } else { false }
    }
    for (index, part) in parts.enumerated() {
      guard case .literal(let bytes) = part else {
        base.append(part)
        if !awaitsScheme { authority.append(part) }
        continue
      }
      var start = 0
      if awaitsScheme, let scheme = bytes.firstRange(of: mark) {
        start = scheme.upperBound
        awaitsScheme = false
      }
      let end = bytes[start...].firstIndex { $0 == 0x2F || $0 == 0x3F } ?? bytes.endIndex
      base.append(.literal(Array(bytes[..<(awaitsScheme ? bytes.endIndex : end)])))
      if awaitsScheme { continue }
      authority.append(.literal(Array(bytes[start..<end])))
      guard end < bytes.endIndex else { continue }
      path = Self.path([.literal(Array(bytes[end...]))] + parts[(index + 1)...])
      break
    }
    if hasOwnPath { path = nil }
  }

  /// As in nginx, a path that is only a query is that of the root.
  private static func path(_ parts: [Template.Part]) -> Template {
    var found: [Template.Part] = []
    for part in parts {
      guard case .literal(let bytes) = part, let end = bytes.firstIndex(of: 0x3F) else {
        found.append(part)
        continue
      }
      if end > 0 { found.append(.literal(Array(bytes[..<end]))) }
      break
    }
    return found.isEmpty ? Template(literal: "/") : Template(found)
  }

  /// Whether the request's own path stands before all that is written, or the target is a socket of the file system.
  private var hasOwnPath: Bool {
    if case .literal(let bytes)? = authority.first, DynamicTarget.isSocket(bytes) { return true }
    return authority.contains { part in
      switch part {
      case .variable(.simple(.uri)), .variable(.simple(.document_uri)), .variable(.simple(.request_uri)): true
      default: false
      }
    }
  }
}
